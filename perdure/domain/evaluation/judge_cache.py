"""The cache of verdicts, so that the same question is not paid for twice."""

import json
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator, ValidationError

from perdure.domain.foundation.base import FrozenModel

# A scripted model replies in order; a cached verdict would take the place of a reply.
SCRIPTED = "scripted:"


def _switch(value: object) -> object:
    """YAML reads a bare `off` as a boolean."""
    return "off" if value is False else value


CacheScope = Annotated[Literal["run", "installation", "off"], BeforeValidator(_switch)]


class JudgeSettings(FrozenModel):
    """How judges are asked; `cache`: for whom a verdict on the very same question counts again."""

    cache: CacheScope = "run"


class KeptVerdict(FrozenModel):
    """A usable reply, and the run that paid for it."""

    run: str
    reply: str


class VerdictStore(Protocol):
    """Usable replies by the hash of everything that the judge was shown."""

    async def verdict(self, key: str) -> str | None:
        """What a judge replied to the question with this key, or None."""
        ...

    async def put_verdict(self, key: str, reply: str) -> None:
        """Keep a usable reply; the first one for a key stays."""
        ...


def scope_of(cache: CacheScope, *, run: str, model: str) -> str | None:
    """What is added to a question, so that only these runs share its verdict; None for none."""
    # A verdict of another run, unseen by the user, could make two runs of one task differ.
    if cache == "off":
        return None
    return "" if cache == "installation" and not model.startswith(SCRIPTED) else run


def kept(text: str) -> KeptVerdict | None:
    """A stored verdict; None for one of a version that did not say whose it is."""
    try:
        return KeptVerdict.model_validate(json.loads(text))
    except (ValidationError, ValueError):
        return None
