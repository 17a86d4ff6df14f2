from __future__ import annotations

import os
from pathlib import Path

import pytest

from glovebox.box.files.disk import paths
from glovebox.box.files.disk.paths import list_tree
from glovebox.box.files.editor import text
from glovebox.box.files.editor.messages import CLIP_AT, DIRECTORY_NOTICE, EditorError
from glovebox.box.files.editor.text import directory, render
from glovebox.box.machine import TreeEntry


def view_directory(path: str) -> str:
    return directory(path, list_tree(path))


def fill(root: Path, *paths: str) -> None:
    for path in paths:
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()


def body(root: Path) -> list[str]:
    """The listed paths, without the root."""
    heading, first, *rest = view_directory(str(root)).split("\n")
    assert (
        heading == f"Here's the files and directories up to 2 levels deep in {root}, excluding hidden items:"
    )
    assert first == f"{root}/"
    return [line.removeprefix(f"{root}/") for line in rest]


def test_two_levels_are_listed_in_the_order_of_bytes(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/c/f4", "a/f2", "empty/", "f1", "Z.txt", "z/", "a-b/x", "é")
    assert body(tmp_path) == ["Z.txt", "a/", "a-b/", "a-b/x", "a/b/", "a/f2", "empty/", "f1", "z/", "é"]


def test_hidden_entries_are_left_out_and_those_of_the_directory_counted(tmp_path: Path) -> None:
    fill(tmp_path, ".hid/x", ".one", "v/.three", "v/w")
    assert body(tmp_path) == [
        "v/",
        "v/w",
        "",
        "2 hidden files/directories in this directory are excluded. "
        f"You can use 'ls -la {tmp_path}' to see them.",
    ]


def test_a_hidden_directory_can_be_viewed_itself(tmp_path: Path) -> None:
    fill(tmp_path, ".git/config")
    assert body(tmp_path / ".git") == ["config"]


def test_links_are_followed_and_dangling_ones_shown(tmp_path: Path) -> None:
    fill(tmp_path, "real/x/y", "t/")
    (tmp_path / "t/link").symlink_to("../real")
    (tmp_path / "t/dangling").symlink_to("nowhere")
    assert body(tmp_path / "t") == ["dangling", "link/", "link/x/"]


@pytest.mark.parametrize("name", ["sp ace", "a$b", "[x]*", "quo'te"])
def test_names_mean_nothing_to_a_shell(tmp_path: Path, name: str) -> None:
    fill(tmp_path, f"{name}/f")
    assert body(tmp_path / name) == ["f"]


def test_names_that_are_not_text_are_shown_as_far_as_possible(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    assert body(tmp_path) == ["caf\ufffd/"]


def test_links_that_go_round_in_circles_are_reported_as_find_does(tmp_path: Path) -> None:
    fill(tmp_path, "a/")
    (tmp_path / "a/up").symlink_to("..")
    with pytest.raises(EditorError) as caught:
        view_directory(str(tmp_path))
    assert str(caught.value) == (
        f"find: File system loop detected; ‘{tmp_path}/a/up’ is part of the same file system loop "
        f"as ‘{tmp_path}’.\n"
    )


def test_a_link_to_itself_is_reported_as_find_does(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(EditorError) as caught:
        view_directory(str(tmp_path))
    assert str(caught.value) == f"find: ‘{tmp_path}/loop’: Too many levels of symbolic links\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_reported_as_find_does(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir(mode=0)
    with pytest.raises(EditorError) as caught:
        view_directory(str(tmp_path))
    assert str(caught.value) == f"find: ‘{tmp_path}/secret’: Permission denied\n"


def test_the_root_of_all_is_a_directory_like_any_other() -> None:
    assert render([TreeEntry("/", True), TreeEntry("/usr", True), TreeEntry("/f", False)]) == "/\n/usr/\n/f"


@pytest.mark.parametrize("size", [99, 100, 101])
def test_a_long_listing_is_cut_without_counting_the_slashes(size: int) -> None:
    names = [f"/d/{number:03}".ljust(size, "n") for number in range(200)]
    listed = render([TreeEntry(name, True) for name in names])
    plain = ("\n".join(names) + "\n")[:CLIP_AT]
    assert listed.endswith(DIRECTORY_NOTICE)
    assert listed.removesuffix(DIRECTORY_NOTICE).replace("/\n", "\n") == plain


def test_of_very_many_entries_the_first_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(
        tmp_path,
        "a/",
        "z/",
        *(f"z/{number:03}" for number in range(150)),
        *(f"m{number:03}" for number in range(300)),
    )
    whole = view_directory(str(tmp_path))
    monkeypatch.setattr(paths, "MAX_ENTRIES", 100)
    monkeypatch.setattr(text, "CLIP_AT", 50 * len(f"{tmp_path}/m000"))
    shown, _, _ = view_directory(str(tmp_path)).partition(DIRECTORY_NOTICE)
    assert len(shown) > 2000
    assert whole.startswith(shown)
