"""`glovebox bundle`: the runtime as one file, for images that have no Python."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import glovebox
from glovebox.cli.options import FAILED, Commands, add_parser
from glovebox.errors import NoBundle

EXAMPLES = """\
examples:
  glovebox bundle                          make dist/glovebox-bundle-VERSION-MACHINE.tar
  glovebox bundle --extras box browser     also what drives a browser
  GLOVEBOX_BUNDLE=FILE …                   let boxes in containers use it instead of making one
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "bundle",
        help="make the runtime that is put into images",
        description="Make a file with everything a box needs, its own Python and C library included. "
        "Unpacked at /opt/glovebox it runs in any Linux image.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to make (default: dist/glovebox-bundle-VERSION-MACHINE.tar)",
    )
    parser.add_argument(
        "--extras",
        nargs="+",
        metavar="NAME",
        default=["box"],
        help="what the runtime is to be able to (default: box)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make it, and say where it is."""
    import platform

    from glovebox.bundle.build import build
    from glovebox.bundle.subprocesses import Stop

    started = time.monotonic()
    name = f"glovebox-bundle-{glovebox.__version__}-{platform.machine()}.tar"
    output: Path = arguments.output or Path("dist", name)
    try:
        build(output, extras=arguments.extras, tell=_tell, stop=Stop())
    except NoBundle as error:
        print(f"glovebox: {error}", file=sys.stderr)
        return FAILED
    seconds, size = time.monotonic() - started, output.stat().st_size / 1e6
    print(f"{output} ({size:.0f} MB, made in {seconds:.0f} s)")
    return 0


def _tell(step: str, done: int, total: int) -> None:
    print(f"{done}/{total} {step}", file=sys.stderr, flush=True)
