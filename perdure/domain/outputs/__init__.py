"""Outputs as texts: their kind, their parts, and what changed between two of them."""
