"""gRPC settings, addresses, and the seam for TLS. Sources of the settings: peers.md section 4."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any

from overlaymq.errors import ConfigError
from overlaymq.transport.grpc_core import grpc
from overlaymq.transport.handshake import Refused

if TYPE_CHECKING:
    from overlaymq.config import LinkConfig
    from overlaymq.messages import Peer

Options = list[tuple[str, Any]]


def _common(config: LinkConfig) -> Options:
    return [
        ("grpc.enable_http_proxy", 0),  # peers on a LAN must not be reached through http_proxy
        ("grpc.max_receive_message_length", config.max_frame),
        ("grpc.max_send_message_length", config.max_frame),
        ("grpc.keepalive_time_ms", int(config.keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_metadata_size", 16 * 1024),
    ]


def channel_options(config: LinkConfig) -> Options:
    """For each dial a channel of its own, so that one link's trouble is not another's."""
    return [
        *_common(config),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),  # the overlay does its own, visible, retries
        ("grpc.initial_reconnect_backoff_ms", int(config.reconnect_min * 1000)),
        ("grpc.min_reconnect_backoff_ms", int(config.connect_timeout * 1000)),
        ("grpc.max_reconnect_backoff_ms", int(config.reconnect_max * 1000)),
        ("grpc.service_config_disable_resolution", 1),
    ]


def server_options(config: LinkConfig) -> Options:
    """``so_reuseport`` off: else two nodes share a port silently and steal each other's links."""
    return [
        *_common(config),
        ("grpc.so_reuseport", 0),
        # Must be below the client's keepalive. The often pasted "min_recv_ping_..." does nothing.
        ("grpc.http2.min_ping_interval_without_data_ms", int(config.keepalive * 500)),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_concurrent_streams", 64),
    ]


def make_channel(address: str, config: LinkConfig) -> grpc.aio.Channel:
    """The client half of the TLS seam: channel credentials come in here."""
    return grpc.aio.insecure_channel(target(address), channel_options(config))


def bind(server: grpc.aio.Server, listen: str) -> int:
    """The server half of the TLS seam; returns the port. Raises ConfigError."""
    try:
        port: int = server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if port == 0:
        raise ConfigError(
            f"listen: cannot bind {listen!r}: another process uses the port, or the address is not "
            "this machine's (port 0 takes a free one)"
        )
    return port


# --- Addresses ------------------------------------------------------------------------------------


def split(address: str) -> tuple[str, int]:
    """``host:port``, ``[v6]:port``. Raises ConfigError."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address!r} is not an address: expected host:port")
    if ":" in host and not bracketed:
        raise ConfigError(f"{address!r} is ambiguous: write an IPv6 address as [address]:port")
    return (host[1:-1] if bracketed else host), int(port)


def join(host: str, port: int) -> str:
    """The reverse of ``split``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_peer(peer: Peer) -> None:
    """What a peer says about its address must at least be one. Raises Refused."""
    try:
        host, port = split(peer.address)
    except ConfigError:
        raise Refused("it does not say where it can be reached", "no address") from None
    if is_wildcard(host) or not port:
        raise Refused("it advertises an address that nobody can dial", "no address")


def target(address: str) -> str:
    """A gRPC target; literals skip the resolver."""
    host, port = split(address)
    try:
        version = ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return f"dns:///{address}"
    return f"ipv{version}:{join(host, port)}"


def is_wildcard(host: str) -> bool:
    """Whether a host means every interface."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == "*"


def local_address_facing(host: str, port: int) -> str | None:
    """The address of the interface that leads to a numeric host. Sends nothing: UDP connect."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port or 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def primary_address(*, v6: bool) -> str:
    """The address of the default route's interface, else loopback."""
    # Addresses reserved for documentation: nothing is sent, only the route is looked up.
    if v6:
        return local_address_facing("2001:db8::1", 9) or "::1"
    return local_address_facing("192.0.2.1", 9) or "127.0.0.1"


def advertised(listen: str, advertise: str, port: int) -> tuple[str, bool]:
    """The address to tell others, and whether it is only a guess. Never a wildcard."""
    if advertise:
        host, given = split(advertise)
        if is_wildcard(host):
            raise ConfigError(f"advertise: {advertise!r} is a wildcard, which nobody can dial")
        return join(host, given or port), False
    host, _ = split(listen)
    if not is_wildcard(host):
        return join(host, port), False
    return join(primary_address(v6=":" in host), port), True
