"""Sessions and commands over HTTP."""
