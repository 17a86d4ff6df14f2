"""A hub whose state directory is damaged starts, with what is intact."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glovebox.hub.registry import Remembered
from glovebox.hub.state import StateDir
from glovebox.protocol.window import Registration
from tests.hub.hubs import running_hub
from tests.survival.damage import damage

pytestmark = pytest.mark.attack

REGISTRATION = Registration(
    instance="i", name="n", folders=[], vscode_version="1", extension_version="1", capabilities=["run"]
)


def filled(path: Path, windows: list[Remembered]) -> str:
    """What a hub leaves; its key."""
    state = StateDir(str(path))
    key = state.key()
    state.announce("http://127.0.0.1:1", key)
    state.keep(windows)
    state.close()
    return key


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_a_damaged_directory_is_opened_and_only_the_truth_is_told(first: int, tmp_path: Path) -> None:
    windows = [
        Remembered(id="1", digest="d" * 64, registration=REGISTRATION, registered=1.0, seen=2.0),
        Remembered(id="2", digest="e" * 64, registration=REGISTRATION, registered=3.0, seen=4.0),
    ]
    for seed in range(first, first + 100):
        path = tmp_path / str(seed)
        filled(path, windows)
        told = f"seed {seed}: {damage(seed, path)}"
        state = StateDir(str(path))
        key = state.key()
        assert len(key) >= 32, told
        assert state.key() == key, told
        assert state.windows() in (windows, []), told
        state.announce("http://127.0.0.1:2", key)
        state.keep(windows)
        assert state.windows() == windows, told
        state.withdraw()
        assert not os.path.lexists(state.address_file), told
        state.close()


@pytest.mark.parametrize("kind", ["directory", "pipe", "garbage"])
def test_whatever_is_found_in_place_of_a_file_the_hub_starts(tmp_path: Path, kind: str) -> None:
    state = tmp_path / "state/glovebox/hub"
    state.mkdir(parents=True)
    for name in ("lock", "key", "address.json", "windows.json"):
        if kind == "directory":
            (state / name).mkdir()
        elif kind == "pipe":
            os.mkfifo(state / name)
        else:
            (state / name).write_bytes(os.urandom(100))
    with running_hub(tmp_path, key="") as hub:
        assert hub.client.get("/alive").status_code == 200
        assert len((state / "key").read_text().strip()) == 64
        assert len(list((state / "damaged").iterdir())) >= 2
