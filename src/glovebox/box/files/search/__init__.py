"""Finding files by name and lines by content."""
