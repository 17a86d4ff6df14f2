"""The box as an MCP server. Everything here but `stdio` loads the MCP SDK: import it when it is needed."""
