"""How a role's models are called: the longest reply, and how they go about it."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.requests import CacheLife, Effort, ModelProfile, ThinkingWay

# A reply that cannot be streamed within its time is lost as a whole, so nobody asks for a longer
# one by default. Measured paces lie between this and three times as much.
TOKENS_PER_SECOND = 50
LEAST_REPLY_TOKENS = 8_192
MOST_REPLY_TOKENS = 1_000_000
# What the Messages API takes at least.
LEAST_THINKING_TOKENS = 1_024


def _switch(given: object) -> object:
    """In YAML `off` is a boolean."""
    if isinstance(given, bool):
        return "adaptive" if given else "off"
    return given


Thinking = Annotated[
    Literal["off", "adaptive"]
    | Annotated[int, Field(ge=LEAST_THINKING_TOKENS, le=MOST_REPLY_TOKENS)],
    BeforeValidator(_switch),
]


class CallSettings(FrozenModel):
    """What is asked of one role's models; what is left open is the model's own default.

    `max_output_tokens` is the longest reply. One that is cut there is asked for again with twice
    the room, as far as model and budget allow. `thinking` is `off`, `adaptive` (the model decides),
    or the most tokens of it, which count as output; `effort` how much it puts into its replies.
    `cache` is how long the provider keeps the beginning of prompts after it was last read: `5m`, or
    `1h`, which costs more to write.
    """

    max_output_tokens: int | None = Field(default=None, ge=16, le=MOST_REPLY_TOKENS)
    thinking: Thinking | None = None
    effort: Effort | None = None
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    cache: CacheLife | None = None

    @model_validator(mode="after")
    def _thinks_or_samples(self) -> Self:
        if self.temperature is not None and self.thinks:
            raise ValueError("a model that thinks takes no `temperature`; leave out one of the two")
        longest, thought = self.max_output_tokens, self.thinking
        if isinstance(thought, int) and longest is not None and thought >= longest:
            raise ValueError(
                f"`thinking` ({thought} tokens) must be less than `max_output_tokens` ({longest}), "
                "of which it is a part"
            )
        return self

    @property
    def thinks(self) -> bool:
        return self.thinking not in (None, "off")

    @property
    def manner(self) -> "CallSettings | None":
        """The part that travels with a call; None when it says nothing."""
        own = self.model_copy(update={"max_output_tokens": None})
        return None if own == CallSettings() else own

    def problems_with(self, card: ModelProfile) -> Iterator[tuple[str, str]]:
        """The settings that a model cannot follow: the field, and why in words."""
        way = "tokens" if isinstance(self.thinking, int) else self.thinking
        if way is not None and not _can(way, card.thinking):
            known = _listed(tuple(_WAYS[one] for one in card.thinking or ()))
            told = f"takes {known}" if known else "cannot be told how to think"
            yield "thinking", f"{card.name} does not take {self.thinking!r}; it {told}"
        if self.effort is not None and not _can(self.effort, card.effort):
            known = _listed(card.effort or ())
            told = f"takes {known}" if known else "takes no effort"
            yield "effort", f"{card.name} does not take {self.effort!r}; it {told}"
        if self.cache == "1h" and not _can(self.cache, card.cache):
            yield "cache", f"{card.name} keeps its cache by its own rules; leave it out"
        if self.temperature is not None and card.sampling is False:
            yield "temperature", f"{card.name} takes no temperature; leave it out"

    def within(self, card: ModelProfile) -> "CallSettings":
        """The settings without those that a model cannot follow."""
        left_out = [field for field, _ in self.problems_with(card)]
        if card.thinking == ():
            left_out.append(
                "thinking"
            )  # a model that cannot think needs no `off`, and may not know it
        return self.model_copy(update=dict.fromkeys(left_out))


_WAYS: dict[ThinkingWay, str] = {
    "off": "`off`",
    "adaptive": "`adaptive`",
    "tokens": "a number of tokens",
}


def _can(wanted: str, known: tuple[str, ...] | None) -> bool:
    """Whether a model supports a setting; an unknown one is left to its provider.

    Every model that cannot think supports `off`.
    """
    return known is None or wanted in known or (wanted == "off" and not known)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def reply_limit(
    card: ModelProfile,
    *,
    wanted: int | None,
    seconds: float,
    raised: int = 0,
    most: int | None = None,
) -> int:
    """The longest reply to ask of a model in tokens, before the budget has its say.

    Args:
        card: the model.
        wanted: what the call or its role asks for; None for as much as can be had.
        seconds: how long a reply may take.
        raised: how often a reply was cut at its limit: each time the limit doubles.
        most: what it is never raised above.
    """
    usual = wanted or max(LEAST_REPLY_TOKENS, int(seconds * TOKENS_PER_SECOND))
    limits = (usual << raised, card.max_output, max(most, 1) if most is not None else None)
    return min(limit for limit in limits if limit is not None)
