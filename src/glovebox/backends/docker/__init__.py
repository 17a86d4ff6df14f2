"""Boxes that are containers of Docker or Podman."""
