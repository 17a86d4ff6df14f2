"""The persistent shells."""
