"""What families of models accept: thinking, effort, images and PDFs, and the length of a reply.

No price list has these facts, so they are tables here. In each the longest matching start of a
model's name decides. Families newer than the tables are left open, and Claude and GPT are taken to
see images, as all before them do: what a model does not accept, its provider refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from perdure.domain.llm.file_signatures import AttachmentKind
from perdure.domain.llm.requests import Effort, ThinkingWay

T = TypeVar("T")
_TOKENS: tuple[ThinkingWay, ...] = ("off", "tokens")
_BOTH: tuple[ThinkingWay, ...] = ("off", "adaptive", "tokens")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a Claude family accepts; None if that is unknown."""

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
    # The price list calls them so on Vertex AI; the first is also Opus 4.1.
    "claude-4-opus": _EXTENDED,
    "claude-4-sonnet": _EXTENDED,
    "claude-sonnet-4-5": _EXTENDED,
    "claude-haiku-4-5": _EXTENDED,
    "claude-opus-4-5": Abilities(thinking=_TOKENS, effort=("low", "medium", "high")),
    "claude-opus-4-6": Abilities(thinking=_BOTH, effort=("low", "medium", "high", "max")),
}


def abilities_of(model: str) -> Abilities:
    """The thinking and effort that a Claude model accepts."""
    return _by_family(_FAMILIES, model, otherwise=Abilities())


def _by_family(table: Mapping[str, T], model: str, *, otherwise: T) -> T:
    starts = [start for start in table if model.startswith(start)]
    return table[max(starts, key=len)] if starts else otherwise


DEFAULT_MAX_OUTPUT = 64_000
MAX_OUTPUT = {
    "claude-2": 4_096,
    "claude-3-": 4_096,
    "claude-3-5-": 8_192,
    "claude-3-7-": 64_000,
    "claude-opus-4-0": 32_000,
    "claude-opus-4-1": 32_000,
    "claude-opus-4-2025": 32_000,
    "claude-4-opus": 32_000,
    "claude-v1": 4_096,
}


def max_output_of(model: str) -> int:
    """The longest reply of a Claude model in tokens."""
    return _by_family(MAX_OUTPUT, model, otherwise=DEFAULT_MAX_OUTPUT)


@dataclass(frozen=True, slots=True)
class OpenAIFacts:
    """What an OpenAI family accepts; `sampling`: a temperature, which reasoning models refuse."""

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
    """What a model of OpenAI accepts."""
    return _by_family(_OPENAI, model, otherwise=OpenAIFacts())


IMAGES: tuple[AttachmentKind, ...] = ("image",)
BOTH: tuple[AttachmentKind, ...] = ("image", "pdf")
# The largest that OpenAI documents for a family that counts image patches.
LARGEST_MULTIPLIER = 2.46


@dataclass(frozen=True, slots=True)
class Vision:
    """What a family can be shown, and its price relative to the usual bound of image tokens."""

    takes: tuple[AttachmentKind, ...] = ()
    factor: float = 1.0


BLIND = Vision()
SEES = Vision(BOTH)
_VISION = {
    "claude": SEES,
    "claude-1": BLIND,
    "claude-2": BLIND,
    "claude-v1": BLIND,
    "claude-instant": BLIND,
    "claude-3-": Vision(IMAGES),
    "claude-3-5-": SEES,
    "claude-3-7-": SEES,
    "gpt-4-turbo": Vision(IMAGES),
    "gpt-4o": SEES,
    # An image costs as much as with gpt-4o, in tokens that are that much cheaper.
    "gpt-4o-mini": Vision(BOTH, 34.0),
    "gpt-4o-audio": BLIND,
    "gpt-4o-mini-audio": BLIND,
    "gpt-4.1": SEES,
    "gpt-4.1-mini": Vision(BOTH, 1.62),
    "gpt-4.1-nano": Vision(BOTH, 2.46),
    "chatgpt-": Vision(IMAGES),
    "o1": SEES,
    "o1-mini": BLIND,
    "o1-preview": BLIND,
    "o3": SEES,
    "o3-mini": BLIND,
    "o4-mini": Vision(BOTH, 1.72),
    "gpt-5": SEES,
    "gpt-5-mini": Vision(BOTH, 1.62),
    "gpt-5-nano": Vision(BOTH, 2.46),
    "gpt-5.": Vision(BOTH, LARGEST_MULTIPLIER),
    "gpt-6": Vision(BOTH, LARGEST_MULTIPLIER),
}


def vision_of(model: str) -> Vision:
    """What a model can be shown; a model of an unknown family can be shown nothing."""
    return _by_family(_VISION, model, otherwise=BLIND)
