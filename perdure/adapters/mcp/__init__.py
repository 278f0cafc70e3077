"""Tools of MCP servers: which the operator allows, how they are reached, what they say."""
