"""A VS Code window as a box: actions in, orders to the window out."""
