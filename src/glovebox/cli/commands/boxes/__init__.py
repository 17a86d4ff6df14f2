"""Commands for boxes that are there."""
