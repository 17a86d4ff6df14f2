"""The terminal: commands, their output while they run, sessions, and what all that costs."""
