"""How people and programs reach Perdure: gateway, command line, REST, MCP, page."""
