"""A running command seen from outside: what it does, what it costs, and limits on it.

Everything here blocks for a few milliseconds at most, and reads `/proc`. Elsewhere nothing is known.
"""
