"""Paths, reading, writing, the editor, search and archives."""
