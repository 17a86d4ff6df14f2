"""The handlers of file actions."""
