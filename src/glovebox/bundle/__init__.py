"""The runtime as one file that runs in any Linux image: with its own interpreter and C library.

A bundle is a plain tar whose members belong below `/opt/glovebox`, and only there: programs in it name the
loader by that path. It brings a bash for images that have none, and takes nothing from the image.
"""

from __future__ import annotations

from glovebox.bundle.archive import Manifest, digest, manifest
from glovebox.bundle.cache import ensure
from glovebox.bundle.layout import ROOT

__all__ = ["ROOT", "Manifest", "digest", "ensure", "manifest"]
