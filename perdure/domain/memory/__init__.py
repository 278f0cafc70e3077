"""What is remembered after a run: how it is stored, ranked, merged, forgotten, and recalled."""
