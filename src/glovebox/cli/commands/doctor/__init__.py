"""`glovebox doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse

from glovebox.cli.options import FAILED, Commands, add_backend_argument, add_parser

EXAMPLES = """\
examples:
  glovebox doctor                          what works here, for the backend that would be taken
  glovebox doctor --backend docker         whether boxes can be containers
  glovebox doctor --json                   the same for a program

The exit status is 1 if something keeps boxes of that backend from working, else 0.
"""


def add_command(commands: Commands) -> None:
    parser = add_parser(
        commands,
        "doctor",
        help="check what works on this machine",
        description="Check what boxes need of this machine: Python, container engines, ports, users, "
        "proxies, disk space, programs. Each finding says what to do about it.",
        examples=EXAMPLES,
    )
    add_backend_argument(
        parser, default="[GLOVEBOX_BACKEND], else docker if an engine answers, else process."
    )
    parser.add_argument("--json", action="store_true", help="One JSON document in place of text.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from glovebox.cli.backends import finish

    return finish(_examine(arguments))


async def _examine(arguments: argparse.Namespace) -> int:
    from glovebox.cli import console
    from glovebox.cli.commands.doctor import backends, machine, programs
    from glovebox.cli.commands.doctor.report import Area, Finding, as_text
    from glovebox.client import registry
    from glovebox.client.backend import Silent
    from glovebox.settings import host

    settings = host.load()
    if name := arguments.backend or settings.backend:
        name, settings = registry.resolve(name, settings)
    else:
        backend = await registry.open_default(settings, Silent(), with_image=False)
        await backend.close()
        name = backend.name
    findings: list[Finding] = []
    machine.check_python(Area(findings, name, "Python"), settings)
    machine.check(Area(findings, name, "Machine"), settings)
    programs.check(Area(findings, name, "Programs"), settings)
    has_engine = await backends.check_engine(Area(findings, name, "Containers"), settings)
    backends.check_remote(Area(findings, name, "Box elsewhere"), settings)
    await backends.check_orphans(Area(findings, name, "Boxes"), settings, has_engine=has_engine)
    is_healthy = all(finding.level != "problem" for finding in findings)
    if arguments.json:
        console.print_json({"backend": name, "healthy": is_healthy, "findings": findings})
    else:
        print(as_text(findings, name))
    return 0 if is_healthy else FAILED
