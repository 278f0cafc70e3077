"""What everything else stands on: base classes, errors, names, references, text."""
