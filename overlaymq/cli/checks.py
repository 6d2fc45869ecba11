"""What `overlaymq doctor` tries, in the order a node would need it.

versions, environment, configuration, key, port, advertised address; then for each seed: does the name
resolve, does the port answer, is it a node that lets us in; and last the clocks. A check never raises for
what it finds wrong: that is a finding. ``note`` is for what may surprise and is no fault.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from overlaymq._version import PROTOCOL, VERSION
from overlaymq.cli.opening import configured, is_free, meets, why_not_free
from overlaymq.cli.seed_checks import check_clock, check_seed
from overlaymq.config import AdminConfig
from overlaymq.errors import IdentityError, OverlayError
from overlaymq.identity import Identity
from overlaymq.runtime.opening import facing_seed
from overlaymq.transport.grpc_options import advertised, is_wildcard, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from overlaymq.cli.options import NodeOptions
    from overlaymq.config import Config

OK, PROBLEM, NOTE = "ok", "problem", "note"

LIBRARIES = ("grpcio", "protobuf", "trio")
GRPCIO_NEEDED = (1, 78, 0)
GRPCIO_WITHDRAWN = ("1.78.1", "1.82.0")
PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")


@dataclass(frozen=True)
class Finding:
    """One check's outcome."""

    check: str
    verdict: str
    text: str
    advice: str = ""


async def examine(options: NodeOptions) -> AsyncIterator[Finding]:
    """Everything that was found, as it is found."""
    for finding in (*check_versions(), *check_environment()):
        yield finding
    try:
        config = configured(options)
    except OverlayError as error:
        yield Finding("configuration", PROBLEM, str(error), "correct the value, then ask again")
        return
    yield Finding("configuration", OK, options.config or "flags and defaults")
    yield check_key(config)
    seeds = config.node.seeds
    if meets(config, options):
        yield check_meeting(options.meet)
        seeds = () if is_free(options.meet) else (options.meet,)
    else:
        try:
            split(config.node.listen)
        except OverlayError as error:
            yield Finding("port", PROBLEM, f"listen: {error}", "write it like 127.0.0.1:7400")
        else:
            yield check_port(config.node.listen)
            yield check_advertised(config)
    for seed in seeds:
        async for verdict, text, advice in check_seed(seed, config):
            yield Finding(f"seed {seed}", verdict, text, advice)
    admin = config.admin.listen
    verdict, text, advice = await check_clock(None if admin == AdminConfig().listen else admin)
    yield Finding("clock", verdict, text, advice)


def check_versions() -> Iterator[Finding]:
    """Which releases run here, and whether one of them is known to be bad."""
    found = {name: metadata.version(name) for name in LIBRARIES}
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    yield Finding(
        "versions",
        OK,
        f"overlaymq {VERSION} (protocol {PROTOCOL}), Python {platform.python_version()}, {listed}",
    )
    grpcio = found["grpcio"]
    numbers = tuple(int(part) for part in grpcio.split(".")[:3] if part.isdecimal())
    if numbers < GRPCIO_NEEDED or grpcio in GRPCIO_WITHDRAWN:
        yield Finding(
            "versions", PROBLEM, f"grpcio {grpcio} is known to fail", "install a newer grpcio"
        )


def check_environment() -> Iterator[Finding]:
    """Proxies, and settings that come from the environment."""
    set_here = [name for name in os.environ if name.lower() in PROXIES]
    if set_here:
        text = f"{', '.join(sorted(set_here))} set: links between nodes ignore it"
        yield Finding("proxy", NOTE, text)
    else:
        yield Finding("proxy", OK, "none in the environment")
    settings = sorted(name for name in os.environ if name.startswith("OVERLAYMQ_"))
    if settings:
        yield Finding("environment", NOTE, f"{', '.join(settings)} override the file")


def check_key(config: Config) -> Finding:
    """Whether the key file can be used, without making one."""
    path = config.node.key_file
    if not path:
        return Finding("key", OK, "none kept: a new id at each start")
    if not Path(path).exists():
        return Finding("key", OK, f"{path} will be made at the first start")
    try:
        return Finding("key", OK, f"{path} holds {Identity.load_or_create(path)!r}")
    except IdentityError as error:
        return Finding("key", PROBLEM, str(error), "see above")


def check_meeting(point: str) -> Finding:
    """What a node that is told nothing would do."""
    if is_free(point):
        return Finding("port", OK, f"{point} is free: a node would found a new overlay there")
    return Finding("port", OK, f"{point} is in use: a node would join through whoever is there")


def check_port(listen: str) -> Finding:
    """Whether this node could listen."""
    error = why_not_free(listen)
    if error is None:
        return Finding("port", OK, f"{listen} can be listened on")
    return Finding(
        "port",
        PROBLEM,
        f"{listen} cannot be listened on: {error.strerror}",
        "stop what listens there (perhaps this very node already runs), choose another port, "
        "or an address of this machine",
    )


def check_advertised(config: Config) -> Finding:
    """What others would be told, and whether they could use it."""
    listen, seeds = config.node.listen, config.node.seeds
    try:
        told = config.node.advertise or facing_seed(listen, seeds)
        address, guessed = advertised(listen, told, split(listen)[1])
    except OverlayError as error:
        return Finding("address", PROBLEM, str(error), "give --advertise HOST:PORT")
    host = split(address)[0]
    shown = f"{host} and the port it gets" if address.endswith(":0") else address
    if is_loopback(host) and any(_is_elsewhere(seed) for seed in seeds):
        return Finding(
            "address",
            PROBLEM,
            f"others would be told {shown}, which only this machine can reach",
            "give --listen an address that faces the seeds, or --advertise",
        )
    if guessed and is_wildcard(split(listen)[0]):
        text = f"others would be told {shown}, the address of the default route"
        return Finding("address", NOTE, text, "if that is wrong, give --advertise HOST:PORT")
    return Finding("address", OK, f"others would be told {shown}")


def _is_elsewhere(seed: str) -> bool:
    try:
        return not is_loopback(split(seed)[0])
    except OverlayError:  # told when the seed itself is checked
        return False


def is_loopback(host: str) -> bool:
    """Whether a host, as written, is this machine only."""
    return host in ("localhost", "::1") or host.startswith("127.")
