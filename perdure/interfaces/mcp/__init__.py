"""The MCP interface: other agents start and follow loops; only people answer questions."""
