"""Tools of MCP servers: the operator's configuration, connections, calls and results."""
