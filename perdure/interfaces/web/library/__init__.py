"""The library: what later runs may be given, and people's decisions on proposals."""
