"""A running command from outside: its state, what it uses, and limits on it.

Everything here blocks for a few milliseconds at most. Without `/proc` nothing is known.
"""
