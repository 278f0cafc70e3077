"""The foundation of all other packages: base classes, errors, names, references, text."""
