#!/usr/bin/env python3
"""Generates rosterd/_proto from the .proto files of the repository; with --check only reports whether it is fresh.

Generated code runs on the protobuf runtime that it was generated for and on newer ones, never on older ones. So old
tools, pinned here, generate it, and it is committed: `pip install '.[generate]'`, then `python scripts/generate.py`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from importlib import metadata, resources
from pathlib import Path

TOOLS = "1.66.2"
HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "rosterd" / "_proto"
PROTO = HERE.parents[2] / "proto"
FILES = ("types.proto", "worker.proto")
INIT = '"""Generated from proto/rosterd/v1 by scripts/generate.py. Do not edit."""\n'
# Programs may generate code from the same files: in one process protobuf accepts each file and each name once. Neither
# goes over the wire.
RENAMED = (("package rosterd.v1;", "package rosterd_client.v1;"), ('"rosterd/v1/', '"rosterd/_proto/'))


def renamed(proto: Path, folder: Path) -> list[str]:
    """Copies the files under names of this package. Returns the names."""
    to = folder / "rosterd" / "_proto"
    to.mkdir(parents=True)
    for name in FILES:
        text = (proto / "rosterd" / "v1" / name).read_text()
        for old, new in RENAMED:
            text = text.replace(old, new)
        # Options for other languages are irrelevant to this one.
        text = re.sub(r"^option (java|go)_\w+ = .*;\n", "", text, flags=re.MULTILINE)
        (to / name).write_text(text)
    return [f"rosterd/_proto/{name}" for name in FILES]


def protoc(folder: str, *arguments: str) -> None:
    # Part of extras only, so not at the top.
    from grpc_tools import protoc as compiler  # type: ignore[import-untyped,import-not-found,unused-ignore]

    well_known = str(resources.files("grpc_tools") / "_proto")
    code = compiler.main(["protoc", f"-I{folder}", f"-I{well_known}", *arguments])
    if code != 0:
        raise SystemExit(f"protoc ended with {code}")


def generate(proto: Path) -> dict[str, str]:
    """The content of every file of the generated package, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        files = renamed(proto, Path(folder))
        protoc(folder, f"--python_out={folder}", f"--pyi_out={folder}", *files)
        made = {path.name: path.read_text() for path in Path(folder, "rosterd", "_proto").glob("*.py*")}
    return {"__init__.py": INIT, **made}


def descriptors(proto: Path) -> bytes:
    """The contents of the files, as a FileDescriptorSet: any version of protoc produces the same."""
    with tempfile.TemporaryDirectory() as folder:
        files = renamed(proto, Path(folder))
        out = Path(folder, "set")
        protoc(folder, f"--descriptor_set_out={out}", *files)
        return out.read_bytes()


def stale(made: dict[str, str]) -> list[str]:
    there = {path.name: path.read_text() for path in TARGET.iterdir() if path.is_file()}
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if a file is not fresh")
    parser.add_argument("--proto", type=Path, default=PROTO, help="root of the .proto files")
    arguments = parser.parse_args()

    installed = metadata.version("grpcio-tools")
    if installed != TOOLS:
        raise SystemExit(f"grpcio-tools is {installed}, wanted is {TOOLS}: pip install grpcio-tools=={TOOLS}")
    made = generate(arguments.proto)
    names = stale(made) if TARGET.is_dir() else sorted(made)
    if arguments.check:
        for name in names:
            print(f"not fresh: {TARGET / name}: run scripts/generate.py", file=sys.stderr)
        return 1 if names else 0
    TARGET.mkdir(exist_ok=True)
    for name in names:
        if name in made:
            (TARGET / name).write_text(made[name])
        else:
            (TARGET / name).unlink()
        print(f"written: {name}" if name in made else f"removed: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
