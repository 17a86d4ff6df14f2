"""Boxes that are processes of this machine."""
