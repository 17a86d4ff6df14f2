"""What Chromium is started with, beside what Playwright says to it."""

from __future__ import annotations

import os
from collections.abc import Collection

from glovebox.box.browser.addresses import resolver_rules

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
    # Chromium would call its maker by itself, which is nobody's business and holds up boxes without network.
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
    # What drops down from an address bar that nobody sees: a process of its own, of 50 MB.
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
        told = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return False
    return told.f_bsize * told.f_bavail >= _ENOUGH_SHARED_MEMORY and os.access(_SHARED_MEMORY, os.W_OK)
