"""The rules of the delegation loop: what a manager may decide, and what follows from it."""
