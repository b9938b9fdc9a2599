"""The package as others get it: fresh generated code, clean archives, no name that conflicts with others."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from rosterd._proto import types_pb2, worker_pb2

HERE = Path(__file__).parent
ROOT = HERE.parent
PROTO = ROOT.parents[1] / "proto"
sys.path.insert(0, str(ROOT / "scripts"))

import generate  # noqa: E402

USER = """
import sys
sys.path.insert(0, sys.argv[1])
import rosterd
from rosterd.v1 import worker_pb2
from rosterd._proto import worker_pb2 as ours
assert worker_pb2.Hello(slots=3).SerializeToString() == ours.Hello(slots=3).SerializeToString()
assert worker_pb2.DESCRIPTOR.package == "rosterd.v1" != ours.DESCRIPTOR.package
print(rosterd.Worker.__name__)
"""


def test_generated_code_is_what_the_proto_files_say() -> None:
    wanted = FileDescriptorSet.FromString(generate.descriptors(PROTO))
    for file, module in zip(wanted.file, (types_pb2, worker_pb2), strict=True):
        there = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(there)
        assert without_json_names(there) == without_json_names(file), "run scripts/generate.py"


def without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """protoc writes names for JSON into sets, and leaves them out of generated code."""
    messages = list(file.message_type)
    while messages:
        message = messages.pop()
        messages.extend(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")
    return file


@pytest.mark.parametrize("first", [True, False])
def test_who_generates_code_from_the_same_files_can_use_both(tmp_path: Path, first: bool) -> None:
    files = [str(path) for path in sorted(PROTO.rglob("*.proto"))]
    generate.protoc(str(PROTO), f"--python_out={tmp_path}", *files)
    program = USER if first else USER.replace("sys.path.insert(0,", "sys.path.append(")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Worker\n", "")


def test_wheel_and_sdist_hold_what_they_should(tmp_path: Path) -> None:
    from hatchling.build import build_sdist, build_wheel

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        wheel, sdist = build_wheel(str(tmp_path)), build_sdist(str(tmp_path))
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    ours = {name for name in names if not name.startswith("rosterd-")}
    assert {"rosterd/py.typed", "rosterd/testing.py", "rosterd/fence/__init__.py"} <= ours
    assert all(name.startswith("rosterd/") and name.endswith((".py", ".pyi", "py.typed")) for name in ours)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for line in ("License-Expression: Apache-2.0", "Classifier: Typing :: Typed", "Project-URL: Source, "):
        assert line in metadata
    with tarfile.open(tmp_path / sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "conformance/worker.py", "examples/hello.py", "tests/conftest.py"} <= inside
    assert not [name for name in inside if "__pycache__" in name or name.endswith(".pyc")]


def test_the_licence_is_the_projects() -> None:
    assert (ROOT / "LICENSE").read_text() == (ROOT.parents[1] / "LICENSE").read_text()
