"""Reading and resolving specifications: files, defaults, flags, references."""
