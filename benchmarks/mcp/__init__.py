"""Measures of MCP: how soon posted servers are there, and what a call of their tools costs."""
