"""The rules of the role loop: definitions, stages, verdicts, and how it ends."""
