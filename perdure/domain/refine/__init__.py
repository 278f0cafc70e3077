"""The rules of the refine loop: settings, decision table, parts, feedback and prompts."""
