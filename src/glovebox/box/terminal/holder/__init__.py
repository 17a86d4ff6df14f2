"""The holder: a small process that owns the terminals, so that they outlive the server.

Everything in this package runs in a bare interpreter: it imports the standard library, and of the project
only itself and `glovebox.linux`.
"""
