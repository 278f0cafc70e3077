"""What Claude models can be told of thinking, effort and sampling, by family.

The price snapshot does not say it. Families that came after this table are left open: what they do
not take, the provider refuses in its own words.
"""

from dataclasses import dataclass

from perdure.domain.llm.requests import Effort, ThinkingWay

_TOKENS: tuple[ThinkingWay, ...] = ("off", "tokens")
_BOTH: tuple[ThinkingWay, ...] = ("off", "adaptive", "tokens")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a family takes; None where this is not known."""

    thinking: tuple[ThinkingWay, ...] | None = None
    effort: tuple[Effort, ...] | None = None


_NONE = Abilities(thinking=(), effort=())
_EXTENDED = Abilities(thinking=_TOKENS, effort=())
_FAMILIES = {
    "claude-2": _NONE,
    "claude-instant": _NONE,
    "claude-v1": _NONE,
    "claude-1": _NONE,
    "claude-3-": _NONE,
    "claude-3-7-": _EXTENDED,
    "claude-opus-4-0": _EXTENDED,
    "claude-opus-4-1": _EXTENDED,
    "claude-opus-4-2025": _EXTENDED,
    "claude-sonnet-4-0": _EXTENDED,
    "claude-sonnet-4-2025": _EXTENDED,
    "claude-sonnet-4-5": _EXTENDED,
    "claude-haiku-4-5": _EXTENDED,
    "claude-opus-4-5": Abilities(thinking=_TOKENS, effort=("low", "medium", "high")),
    "claude-opus-4-6": Abilities(thinking=_BOTH, effort=("low", "medium", "high", "max")),
}


def abilities_of(model: str) -> Abilities:
    """What a model can be told; the longest start of its name decides."""
    starts = [start for start in _FAMILIES if model.startswith(start)]
    return _FAMILIES[max(starts, key=len)] if starts else Abilities()
