"""VS Code in the box."""
