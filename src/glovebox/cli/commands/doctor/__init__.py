"""`glovebox doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse
import dataclasses

from glovebox.cli.options import FAILED, add_backend_argument

EXAMPLES = """\
examples:
  glovebox doctor                          what works here, for the backend that would be taken
  glovebox doctor --backend docker         whether boxes can be containers
  glovebox doctor --json                   the same for a program

The exit status is 1 if something keeps boxes of that backend from working, else 0.
"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give the command line this command."""
    parser = commands.add_parser(
        "doctor",
        help="check what works on this machine",
        description="Check what boxes need of this machine: Python, container engines, ports, users, "
        "proxies, disk space, programs. Each finding says what to do about it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_backend_argument(
        parser, default="[GLOVEBOX_BACKEND], else docker if an engine answers, else process."
    )
    parser.add_argument("--json", action="store_true", help="One JSON document in place of text.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check everything and tell."""
    from glovebox.cli import backends, console
    from glovebox.cli.commands.doctor import checks

    settings = backends.settings()
    backend = backends.chosen(arguments.backend, settings, aloud=False)
    if backend.startswith(("http://", "https://")):
        backend, settings = "remote", dataclasses.replace(settings, url=backend)
    findings = checks.findings(settings, backend)
    sick = any(finding.level == "problem" for finding in findings)
    if arguments.json:
        console.print_json({"backend": backend, "healthy": not sick, "findings": findings})
    else:
        print(checks.as_text(findings, backend))
    return FAILED if sick else 0
