"""Named approaches that are tried in turn: each with its own prompt, model or fewer tools."""

from collections.abc import Sequence

from pydantic import Field, model_validator

from perdure.domain.foundation.base import FrozenModel


class StrategyTools(FrozenModel):
    """Which of the run's tools an approach has; names may end in `*`. It can only narrow."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def offered(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names that are left."""
        kept = [name for name in names if self.allow is None or _any(self.allow, name)]
        return tuple(name for name in kept if not _any(self.deny, name))


class Strategy(FrozenModel):
    """One approach; a bare text is its name, and its name is its prompt.

    Args:
        name: what the history calls it.
        prompt: what the model is told of it; none: the name.
        model: who carries it out, a name or a list with fallbacks; none: the executor.
        tools: which of the run's tools it has; none: all.
    """

    name: str = Field(min_length=1, max_length=80)
    prompt: str = ""
    model: str | tuple[str, ...] | None = None
    tools: StrategyTools | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def approach(self) -> str:
        """What the model is told."""
        return self.prompt or self.name

    @property
    def chain(self) -> tuple[str, ...]:
        """Its own models in order of preference; empty: the executor's."""
        return (self.model,) if isinstance(self.model, str) else (self.model or ())


def strategy_of(strategies: Sequence[Strategy], iteration: int) -> Strategy | None:
    """The approach of an iteration, counted from 1: each in turn, then from the first again."""
    return strategies[(iteration - 1) % len(strategies)] if strategies and iteration > 0 else None


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )
