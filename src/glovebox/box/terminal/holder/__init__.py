"""The holder: a small process that owns the terminals, so that they outlive the server.

Everything in this package runs in a bare interpreter with the standard library only, and imports nothing
of the project but itself.
"""
