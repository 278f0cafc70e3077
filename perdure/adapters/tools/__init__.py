"""Built-in tools, plugins, and the host that runs them inside a grant."""
