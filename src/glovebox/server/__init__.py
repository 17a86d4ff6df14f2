"""The HTTP edge of a box."""
