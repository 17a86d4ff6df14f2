"""The process that drives Chromium, as the sandbox user."""
