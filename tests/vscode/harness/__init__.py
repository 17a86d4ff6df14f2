"""A real VS Code: its server, a browser that shows its windows, and a hub that they connect to."""
