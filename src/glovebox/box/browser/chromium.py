"""Settings of the browser, the Chromium of the machine, and the flags that it is started with."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection
from typing import Literal

from glovebox.box.browser.addresses import resolver_rules
from glovebox.errors import BrowserError
from glovebox.protocol.base import Message


class BrowserOptions(Message):
    """Settings of the plugin."""

    #: The size of pages.
    width: int = 1280
    height: int = 720
    #: Whether actions may name places on the screen: mouse_click(x, y), keyboard_type(text) and so on.
    coordinates: bool = False
    #: How long pages may take to load, in seconds.
    load_limit: float = 30.0
    #: The answer to pages that ask with confirm() or prompt().
    dialogs: Literal["accept", "dismiss"] = "dismiss"
    #: How long a page must be quiet after an action before it is observed, in seconds.
    settle: float = 0.1
    #: The most characters of an accessibility tree, or of a page's text.
    tree_limit: int = 400_000
    #: The interpreter of the process that drives Chromium; empty for that of the box.
    python: str = ""


class Setup(BrowserOptions):
    """What the process that drives Chromium is started with, as a file in its directory."""

    socket: str
    #: The Chromium to start; empty is Playwright's own.
    executable: str
    #: Where screenshots and downloads go, and where files may be opened from.
    workspace: str
    profile: str
    #: Ports of the box that no page may reach.
    closed_ports: list[int]
    #: The BrowserGym task to evaluate an agent on; empty is none.
    evaluation: str = ""


_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: A snap maps directories and cannot be driven through pipes; its starter is a script.
_SNAP = b"/snap/bin/"
_STARTER = 64 << 10


def find_chromium(chosen: str, path: str) -> str:
    """The chosen Chromium, or the system's; empty means Playwright's. Blocks.

    Raises:
        BrowserError: the chosen one does not exist.
    """
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None:
            raise BrowserError(
                f"GLOVEBOX_CHROMIUM is {chosen!r}, and there is no program there. "
                + how_to_get(sys.executable)
            )
        return os.path.abspath(found)
    for name in _NAMES:
        found = shutil.which(name, path=path)
        if found is not None and not _is_snap(found):
            return found
    return ""


def how_to_get(python: str) -> str:
    """How to install a Chromium."""
    return (
        f"Install Chromium: `apt-get install chromium` on Debian, `{python} -m playwright install --with-deps"
        " chromium` elsewhere. Or say where one is: GLOVEBOX_CHROMIUM=/path/to/chromium."
    )


def _is_snap(program: str) -> bool:
    if os.path.realpath(program).startswith("/snap/"):
        return True
    with open(program, "rb") as file:
        return file.read(2) == b"#!" and _SNAP in file.read(_STARTER)


#: Containers often have too little of it for Chromium.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
_ENOUGH_SHARED_MEMORY = 256 << 20
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Chromium would call its maker, which leaks and delays boxes without network.
    "--gaia-url=http://127.0.0.1:9",
    "--component-updater=url-source=http://127.0.0.1:9/",
)

#: Chromium takes the last list of features, so what Playwright turns off is repeated.
_FEATURES_OFF = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
    "msEdgeUpdateLaunchServicesPreferredVersion",
    "msForceBrowserSignIn",
    # The popup of an address bar that is not shown: a process of its own, of 50 MB.
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
)


def flags(closed_ports: Collection[int]) -> list[str]:
    """The flags for a Chromium whose pages reach none of these ports. Blocks for a moment."""
    arguments = [*_FLAGS, f"--disable-features={','.join(_FEATURES_OFF)}"]
    if rules := resolver_rules(closed_ports):
        arguments.append(f"--host-resolver-rules={rules}")
    if not _has_shared_memory():
        arguments.append("--disable-dev-shm-usage")
    return arguments


def _has_shared_memory() -> bool:
    try:
        status = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return False
    return status.f_bsize * status.f_bavail >= _ENOUGH_SHARED_MEMORY and os.access(_SHARED_MEMORY, os.W_OK)
