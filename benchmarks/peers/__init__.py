"""Peers: how each is installed, started, and asked for the few operations that are measured."""
