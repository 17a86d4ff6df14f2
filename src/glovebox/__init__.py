"""Glovebox: the runtime AI agents work in."""

__version__ = "0.1.0"
