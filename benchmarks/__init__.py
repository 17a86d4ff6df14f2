"""Measures the box next to other runtime servers, in one run on one machine."""
