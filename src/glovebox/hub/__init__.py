"""Where VS Code windows connect, and act as boxes."""
