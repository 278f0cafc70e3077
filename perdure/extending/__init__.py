"""Code of others: the decorators that name it, and how it is called."""
