"""How alike two texts are: the exact ratio, never a sampled one."""

from rapidfuzz.distance import Indel


def similarity(left: str, right: str) -> float:
    """From 0 (nothing in common) to 1 (equal)."""
    return round(Indel.normalized_similarity(left, right), 9)
