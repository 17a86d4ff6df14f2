"""MCP servers the box routes to."""
