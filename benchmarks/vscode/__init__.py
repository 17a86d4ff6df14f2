"""Measures of a VS Code window that is a box: what a round trip through it costs."""
