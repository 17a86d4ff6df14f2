"""Which addresses are closed, told from their text and from where links lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from glovebox.box.browser.addresses import file_allowed, resolver_rules, why_closed

PORT = 4321
#: Pages of Chromium itself, also as browsers read what others would not.
OWN_PAGES = [
    "chrome://version",
    "CHROME://version/",
    "chrome:version",
    "chrome://version:99999",
    "chrome://[x",
    "ch\trome://version",
    "\x01 chrome://settings",
    "chrome-untrusted://terminal/",
    "chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/index.html",
    "devtools://devtools/bundled/inspector.html",
    "chrome-search://local-ntp/",
    "chrome-error://other/",
    "view-source:chrome://version",
    "View-Source: view-source:chrome://version",
    "about:version",
    "about:",
    "about:blanket",
    "javascript:alert(1)",
    "filesystem:http://127.0.0.1/temporary/x",
    "mailto:me@example.org",
]


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:{PORT}/",
        f"HTTP://LOCALHOST:{PORT}",
        f"https://[::1]:{PORT}/alive",
        f"ws://box.example.org:{PORT}/x",
        f"  http://0.0.0.0:{PORT}/ ",
        f"view-source:http://127.0.0.1:{PORT}/",
        f"localhost:{PORT}/alive",
        f"127.0.0.1:{PORT}",
        f"http:\\\\127.0.0.1:{PORT}\\alive",
        f"ht\ttp://127.0.0.1:{PORT}/",
    ],
)
def test_the_port_of_the_box_is_closed_under_every_name(url: str) -> None:
    reason = why_closed(url, [PORT], "/workspace")
    assert reason is not None
    assert str(PORT) in reason


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4322/",
        "https://example.org/",
        "about:blank",
        "about:blank#part",
        "ABOUT:Blank",
        "blob:http://example.org/0",
        "view-source:https://example.org/",
        "chrome-error://chromewebdata/",
        "data:text/html,x:4321",
        "http://[bad",
        "",
    ],
)
def test_other_addresses_are_open(url: str) -> None:
    assert why_closed(url, [PORT], "/workspace") is None


@pytest.mark.parametrize("url", OWN_PAGES)
def test_pages_of_the_browser_itself_are_closed(url: str) -> None:
    assert "is closed to the browser" in str(why_closed(url, [PORT], "/workspace"))


def test_the_usual_port_of_a_scheme_counts() -> None:
    assert why_closed("http://127.0.0.1/", [80], "/workspace") is not None
    assert why_closed("https://127.0.0.1/", [80], "/workspace") is None


def test_chromium_is_told_of_every_closed_port() -> None:
    assert resolver_rules([9, 7]) == "MAP *:7 ~NOTFOUND, MAP *:9 ~NOTFOUND"
    assert resolver_rules([]) == ""


def test_files_are_open_in_the_workspace_only(tmp_path: Path) -> None:
    workspace = tmp_path / "work space"
    workspace.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("x")
    (workspace / "in.html").write_text("x")
    (workspace / "link.html").symlink_to(outside)
    place = workspace.as_uri()
    assert file_allowed(f"{place}/in.html", str(workspace))
    assert file_allowed(f"{place}/missing.html?q=1#part", str(workspace))
    assert file_allowed(place, str(workspace))
    for url in (
        outside.as_uri(), f"{place}/link.html", f"{place}/../outside.txt", f"{place}/%2e%2e/outside.txt",
        "file:///etc/passwd", "file:///", "file://host/share", "file:etc/passwd", "file:/etc/passwd", "file://[",
        f"{place}\\..\\outside.txt", f"{place}x/in.html", f"{place}/a%00b",
    ):  # fmt: skip
        assert not file_allowed(url, str(workspace)), url
    assert "outside the workspace" in str(why_closed("view-source:file:///etc/passwd", [], str(workspace)))
