"""The bundle of this source tree, and settings that keep what is made in a directory of a test."""

from __future__ import annotations

import os
from pathlib import Path

from glovebox.settings import host
from glovebox.settings.host import HostSettings
from tests.support.engine import prepared


def built_bundle() -> Path:
    """The bundle that all tests use: made once, or the one that GLOVEBOX_BUNDLE names."""
    return prepared("bundle")


def settings_with(cache: Path, **variables: str) -> HostSettings:
    """Settings that keep what is made in a directory of the test."""
    own = {"PATH": os.environ["PATH"], "HOME": str(cache), "XDG_CACHE_HOME": str(cache)}
    return host.load({**own, **variables})
