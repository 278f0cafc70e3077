"""Experiments: one task over many inputs in several arms, and what each arm made of them."""
