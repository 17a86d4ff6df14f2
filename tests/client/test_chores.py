"""What a runtime does with more than one action, as its methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from glovebox import SyncRuntime
from tests.support.running import RunningBox


def test_files_go_to_and_fro_without_async(box: RunningBox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("hello")
    there = tmp_path / "there"
    with SyncRuntime(box.url, key=box.key) as runtime:
        runtime.copy_to(source, str(there), recursive=True)
        assert runtime.list_files(str(there)) == ["source/"]
        runtime.download_to(str(there / "source"), tmp_path / "back")
        runtime.add_env_vars({"greeting": "it's $me"})
        assert runtime.run("echo $GREETING").content == "it's $me"
        with pytest.raises(FileNotFoundError):
            runtime.copy_to(tmp_path / "missing", str(there))
    assert [path.read_text() for path in (tmp_path / "back").rglob("a.txt")] == ["hello"]
