"""The MCP interface: other agents start and follow loops; answering questions stays with people."""
