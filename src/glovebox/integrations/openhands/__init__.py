"""OpenHands: its runtime class, and what OpenHands does with a box besides actions.

The functions take a `Runtime`: microagents, repositories with set-up script and git hooks, edits drafted by a
model, the list of tasks.
"""
