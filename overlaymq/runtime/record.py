"""The format of a flight record: what a core was, what it was told, and what it answered.

A record is one or two files, each a *segment*: a line that names the format, then frames. A frame is one
byte for its kind, its length, a CRC-32 and its content, so that a file that ends in the middle of a frame
(the process was killed, the disk was full) can be read up to there.

    H  header     JSON: who recorded, with which versions, from which step on
    S  snapshot   the whole core, pickled: a segment begins with one, so the file before it is not needed
    I  step       three pickles: (number, now, input); the upcalls' answers; (digests of the effects, error)

Why pickle: a core is a graph of objects that refer to each other, and pickle keeps the references. Why it
is safe to open a stranger's record all the same: the reader finds nothing but the classes of the core, of its
inputs and of its configuration, `Random` and two containers. None of them, and nothing that the core calls,
opens a file, runs a program or imports a module; a false record can at most waste time and memory.

A digest must not depend on which equal objects happen to be one object, as a pickle does. The Pickler of
``fingerprint`` therefore remembers nothing (``fast``), and takes each body by its own digest, computed once
for all the links that a batch goes out on. The digests are against accidents, not against forgers.

Without payloads, every ``bytes`` is written as its length and read as that many zeros: the core never looks
into a body, only at its size, so the replay is exact all the same.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zlib
from collections import OrderedDict, deque
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from overlaymq import config, core, events, messages
from overlaymq.core.node import Node
from overlaymq.core.reliability.upcalls import Upcalls
from overlaymq.errors import OverlayError
from overlaymq.ids import Id
from overlaymq.messages import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from overlaymq.events import Effect

MAGIC = b"overlaymq flight record 1\n"
HEADER, SNAPSHOT, STEP = b"H", b"S", b"I"
DIGEST = 8
"""Bytes of a digest: two different effects pass for equal once in 2**64 times."""
MAX_FRAME = 1 << 30
"""A longer frame, or a longer body of zeros, is taken for damage: a guess."""

_FRAME = struct.Struct(">cII")
_PROTOCOL = 5
_PLAIN = (Random, OrderedDict, deque)


class RecordError(OverlayError):
    """A file is no record, or one that cannot be used."""


class Header(msgspec.Struct, frozen=True):
    """What a segment says of itself. ``clock`` and ``wall`` are one moment on the core's clock (seconds)
    and on the wall's (nanoseconds); ``run`` is the same for the segments of one life of a node."""

    run: str
    segment: int
    first: int
    node: str
    address: str
    version: str
    python: str
    msgspec: str
    clock: float
    wall: int
    payloads: bool


class UpcallsSet(msgspec.Struct, frozen=True, gc=False):
    """The application set upcalls for a topic: which ones there are now."""

    topic: Id
    names: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What one upcall did. ``changed`` is its argument afterwards, if it was changed in place; ``answer`` is
    what it returned, unless that was its argument (``same``) or something that no record can hold
    (``foreign`` is its repr, or that of a note that is none); ``raised`` is the repr of what it raised.
    ``asked`` is what it asked its tree for, ``note`` what it added to a join, ``accepted`` whether it took an
    anycast."""

    name: str
    same: bool = False
    answer: Batch | None = None
    foreign: str | None = None
    changed: Batch | None = None
    raised: str | None = None
    asked: tuple[events.Send | events.SetTimer, ...] = ()
    note: bytes = b""
    accepted: bool = False


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A core between two steps. Upcalls are the application's functions: only their names are kept."""

    upcalls: tuple[UpcallsSet, ...]
    core: Any


class Step(msgspec.Struct, frozen=True, gc=False):
    """One input as it was recorded, and what came of it: the answers of upcalls in order (and upcalls that
    they set), a digest of each effect, and the repr of what the core raised."""

    number: int
    now: float
    input: Any
    said: tuple[Verdict | UpcallsSet, ...]
    digests: bytes
    raised: str | None


# --- writing ---------------------------------------------------------------------------------------


def frame(kind: bytes, content: bytes) -> bytes:
    """One frame."""
    return _FRAME.pack(kind, len(content), zlib.crc32(content)) + content


class _Pickler(pickle.Pickler):
    """Leaves out what is not the core's: cached encodings, and the application's functions."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Batch and value.wire is not None:
            return Batch, _fields(value)
        if type(value) is Upcalls:
            return Upcalls, ()
        return NotImplemented


class _BlankPickler(_Pickler):
    """Leaves out payloads too."""

    def persistent_id(self, value: Any) -> int | None:
        return len(value) if type(value) is bytes else None


class TooLarge(Exception):
    """More than there is room for."""


class _Sink:
    """Takes so many bytes and no more, so that a huge core is not pickled to its end in vain."""

    def __init__(self, limit: int) -> None:
        self.pieces: list[bytes] = []
        self._left = limit

    def write(self, piece: Any) -> int:
        self._left -= len(piece)
        if self._left < 0:
            raise TooLarge
        self.pieces.append(bytes(piece))
        return len(piece)


def dump(value: Any, payloads: bool, limit: int = MAX_FRAME) -> bytes:
    """A value as the reader takes it, or TooLarge."""
    sink = _Sink(limit)
    (_Pickler if payloads else _BlankPickler)(sink, _PROTOCOL).dump(value)
    return b"".join(sink.pieces)


def _fields(batch: Batch, body: bytes | None = None) -> tuple[Any, ...]:
    """Everything but the cached encoding."""
    values = msgspec.structs.astuple(batch)[:-1]
    return values if body is None else (*values[:5], body, *values[6:])


class _Fingerprints(pickle.Pickler):
    def __init__(self, sink: io.BytesIO, payloads: bool) -> None:
        super().__init__(sink, _PROTOCOL)
        self.fast = True
        self._payloads = payloads
        self._bodies: dict[int, bytes] = {}

    def persistent_id(self, value: Any) -> int | None:
        return len(value) if type(value) is bytes and not self._payloads else None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Batch:
            return NotImplemented
        return Batch, _fields(value, self._of_body(value.body) if self._payloads else None)

    def _of_body(self, body: bytes) -> bytes:
        known = self._bodies.get(id(body))
        if known is None:
            known = self._bodies[id(body)] = blake2b(body, digest_size=DIGEST).digest()
        return known


def fingerprint(effects: list[Effect], payloads: bool) -> bytes:
    """A digest of each effect, one after the other."""
    if not effects:
        return b""
    sink = io.BytesIO()
    pickler = _Fingerprints(sink, payloads)
    digests = []
    for effect in effects:
        pickler.dump(effect)
        digests.append(blake2b(sink.getvalue(), digest_size=DIGEST).digest())
        sink.seek(0)
        sink.truncate()
    return b"".join(digests)


# --- reading ---------------------------------------------------------------------------------------


def _vocabulary() -> dict[tuple[str, str], type]:
    """Every class that a record may name."""
    packages = (f"{core.__name__}.", f"{messages.__name__}.")
    modules = [config, events, messages, sys.modules[__name__]]
    modules += [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(packages) and "conformance" not in name  # the core does not use it
    ]
    own = {
        (module.__name__, name): value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    mine = {"UpcallsSet", "Verdict", "Snapshot"}
    own = {key: value for key, value in own.items() if key[0] != __name__ or key[1] in mine}
    return own | {(kind.__module__, kind.__name__): kind for kind in _PLAIN}


_VOCABULARY = _vocabulary()
_SAID = (Verdict, UpcallsSet)
_INPUTS = (*get_args(events.Input), UpcallsSet)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        kind = _VOCABULARY.get((module, name))
        if kind is None:
            raise RecordError(
                f"it names {module}.{name}, which no record of a node does; not opened"
            )
        return kind

    def persistent_load(self, length: Any) -> bytes:
        if type(length) is not int or not 0 <= length <= MAX_FRAME:
            raise RecordError(f"it holds a body of {length!r} bytes; not opened")
        return bytes(length)


def _load(content: bytes, values: int = 1) -> list[Any]:
    """That many values that ``dump`` wrote one after the other."""
    file = io.BytesIO(content)
    try:
        return [_Unpickler(file).load() for _ in range(values)]
    except RecordError:
        raise
    except Exception as error:  # a false pickle may raise anything at all
        raise RecordError(f"a part of it makes no sense: {error!r}") from None


def load_snapshot(content: bytes) -> Snapshot:
    """The content of a snapshot's frame."""
    (snapshot,) = _load(content)
    if type(snapshot) is not Snapshot or type(snapshot.core) is not Node:
        raise RecordError("its snapshot is not one of a node")
    return snapshot


def load_step(content: bytes) -> Step:
    """The content of a step's frame."""
    match _load(content, 3):
        case [
            (int(number), float(now), value),
            tuple(said),
            (bytes(digests), None | str() as raised),
        ] if isinstance(value, _INPUTS) and all(isinstance(one, _SAID) for one in said):
            return Step(number, now, value, said, digests, raised)
    raise RecordError("one of its steps is not one of a node")


def load_header(content: bytes) -> Header:
    """The content of a header's frame."""
    try:
        return msgspec.json.decode(content, type=Header)
    except msgspec.DecodeError as error:
        raise RecordError(f"its header makes no sense: {error}") from None


def frames(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """The whole frames of a segment, then EOFError if something is left over that is no whole frame."""
    while lead := file.read(_FRAME.size):
        if len(lead) < _FRAME.size:
            raise EOFError
        kind, length, checksum = _FRAME.unpack(lead)
        content = file.read(length) if length <= MAX_FRAME else b""
        if len(content) < length or zlib.crc32(content) != checksum:
            raise EOFError
        yield kind, content
