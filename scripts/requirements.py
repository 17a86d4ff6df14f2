"""Prints the packages that pyproject.toml asks for with extras: `requirements.py [--alone] EXTRA ...`."""

import re
import sys
import tomllib
from pathlib import Path


def main() -> None:
    """One line for each, those of extras of extras too; `--alone` leaves out what Glovebox itself needs."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    own = re.compile(rf"{project['name']}\[(.*)\]")
    waiting = sys.argv[1:]
    alone = waiting[:1] == ["--alone"]
    del waiting[:alone]
    found = set() if alone else set(project["dependencies"])
    while waiting:
        for requirement in project["optional-dependencies"][waiting.pop()]:
            if extras := own.fullmatch(requirement):
                waiting += extras[1].split(",")
            else:
                found.add(requirement)
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main()
