"""The committed protobuf code is exactly what the definitions compile to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protos.generate import GENERATED, generate

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
syntax = "proto3";
package overlaymq.v1;
message Peer { bytes id = 1; }
"""
USER = """
syntax = "proto3";
package overlaymq.v1;
import "overlaymq/v1/base.proto";
message Greeting { Peer peer = 1; }
"""


def _sources(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for pattern in ("*.py", "*.pyi")
        for path in folder.rglob(pattern)
    }


def test_committed_code_is_current(tmp_path: Path) -> None:
    generate(tmp_path / "_pb")
    stale = "run `make protos` and commit the result"
    assert _sources(GENERATED) == _sources(tmp_path / "_pb"), stale


def test_imports_resolve_inside_the_package(tmp_path: Path) -> None:
    definitions = tmp_path / "protos" / "overlaymq" / "v1"
    definitions.mkdir(parents=True)
    (definitions / "base.proto").write_text(BASE)
    (definitions / "user.proto").write_text(USER)
    generate(tmp_path / "_pb", source=tmp_path / "protos")

    generated = _sources(tmp_path / "_pb")
    here = "overlaymq.transport._pb.overlaymq.v1"
    for suffix in ("py", "pyi"):
        assert f"from {here} import base_pb2" in generated[f"overlaymq/v1/user_pb2.{suffix}"]
    assert f"'{here}.base_pb2'" in generated["overlaymq/v1/base_pb2.py"]
    assert not any("grpc" in name for name in generated)
