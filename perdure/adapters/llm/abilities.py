"""What families of models take, and how long their replies can be: no price list says it.

Families that came after these tables are left open: what they do not take, the provider refuses in
its own words.
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


DEFAULT_MAX_OUTPUT = 64_000
# By family, the longest matching start wins.
MAX_OUTPUT = {
    "claude-2": 4_096,
    "claude-3-": 4_096,
    "claude-3-5-": 8_192,
    "claude-3-7-": 64_000,
    "claude-opus-4-0": 32_000,
    "claude-opus-4-1": 32_000,
    "claude-v1": 4_096,
}


def max_output_of(model: str) -> int:
    """The longest reply of a Claude model in tokens."""
    starts = [start for start in MAX_OUTPUT if model.startswith(start)]
    return MAX_OUTPUT[max(starts, key=len)] if starts else DEFAULT_MAX_OUTPUT


@dataclass(frozen=True, slots=True)
class OpenAIFacts:
    """What a family of OpenAI takes; `sampling`: a temperature, which models that think refuse."""

    max_output: int = 16_384
    thinking: tuple[ThinkingWay, ...] | None = None
    effort: tuple[Effort, ...] | None = None
    sampling: bool = False


_LEVELS: tuple[Effort, ...] = ("low", "medium", "high")
_PLAIN = OpenAIFacts(thinking=(), effort=(), sampling=True)
_ALWAYS = OpenAIFacts(max_output=100_000, thinking=("adaptive",), effort=_LEVELS)
_FIFTH = OpenAIFacts(max_output=128_000, thinking=("adaptive",), effort=_LEVELS)
_OPENAI = {
    "gpt-3.5": OpenAIFacts(max_output=4_096, thinking=(), effort=(), sampling=True),
    "gpt-4": OpenAIFacts(max_output=4_096, thinking=(), effort=(), sampling=True),
    "gpt-4o": _PLAIN,
    "gpt-4.1": OpenAIFacts(max_output=32_768, thinking=(), effort=(), sampling=True),
    "chatgpt-": _PLAIN,
    "o1": _ALWAYS,
    "o3": _ALWAYS,
    "o4": _ALWAYS,
    "gpt-5": _FIFTH,
    "gpt-5-chat": _PLAIN,
    "gpt-5.1": OpenAIFacts(max_output=128_000, thinking=("off", "adaptive"), effort=_LEVELS),
    "gpt-5.": OpenAIFacts(max_output=128_000),
    "gpt-6": OpenAIFacts(max_output=128_000),
}


def openai_facts(model: str) -> OpenAIFacts:
    """What a model of OpenAI takes; the longest start of its name decides."""
    starts = [start for start in _OPENAI if model.startswith(start)]
    return _OPENAI[max(starts, key=len)] if starts else OpenAIFacts()
