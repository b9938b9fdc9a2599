#!/usr/bin/env python3
"""Makes rosterd/_proto from the .proto files of the repository; with --check only says whether it is fresh.

Generated code runs on the protobuf runtime it was made for and on newer ones, never on older ones. So it is made
with old tools, pinned here, and committed: `pip install '.[generate]'`, then `python scripts/generate.py`.
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
FILES = ("rosterd/v1/types.proto", "rosterd/v1/worker.proto")
INIT = '"""Generated from proto/rosterd/v1 by scripts/generate.py. Do not edit."""\n'


def generate(proto: Path) -> dict[str, str]:
    """The content of every file of the generated package, by file name."""
    # Part of the `generate` extra only, so not at the top.
    from grpc_tools import protoc  # type: ignore[import-untyped,import-not-found,unused-ignore]

    well_known = str(resources.files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as folder:
        code = protoc.main(
            [
                "protoc",
                f"-I{proto}",
                f"-I{well_known}",
                f"--python_out={folder}",
                f"--pyi_out={folder}",
                *FILES,
            ]
        )
        if code != 0:
            raise SystemExit(f"protoc ended with {code}")
        made = {path.name: relative(path.read_text()) for path in Path(folder, "rosterd", "v1").iterdir()}
    return {"__init__.py": INIT, **made}


def relative(text: str) -> str:
    """protoc writes imports from the root of the .proto tree; ours live in a package of another name."""
    return re.sub(r"^from rosterd\.v1 import", "from . import", text, flags=re.MULTILINE)


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
