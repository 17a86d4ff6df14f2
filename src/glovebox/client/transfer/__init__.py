"""Files to a box and from it."""
