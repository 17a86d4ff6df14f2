"""Paths, atomic writes, locks and encodings: how files are touched."""
