"""What is kept after a run: how it is written down, ranked, merged, forgotten, and told again."""
