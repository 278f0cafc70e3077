"""What memory holds: learnings, episodes, skills, patterns and events, each with its provenance."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.base import FrozenModel

Kind = Literal["learning", "episode", "skill", "pattern", "event"]
KINDS: tuple[Kind, ...] = ("learning", "episode", "skill", "pattern", "event")
Sort = Literal["fact", "heuristic", "anti_pattern"]
PatternSort = Literal["category", "hour", "pair"]
PatternState = Literal["proposed", "approved", "rejected"]
TEXT_CHARACTERS = 64_000
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Origin(FrozenModel):
    """The run that an entry comes from, and how that run ended."""

    run: str
    outcome: Outcome


class Remembered(FrozenModel):
    """What every entry has.

    `confidence` is the original one: it is never lowered in place, `ranking` says what is left of
    it. `uses` counts runs that were shown the entry, `successes` those of them that were accepted.
    `origins` are the runs that said it, the first one first; empty means that a person wrote it.
    """

    id: str = Field(min_length=1)
    category: str | None = None
    text: str = Field(default="", max_length=TEXT_CHARACTERS)
    confidence: Share = 1.0
    uses: Count = 0
    successes: Count = 0
    created: AwareDatetime
    last_used: AwareDatetime | None = None
    origins: tuple[Origin, ...] = ()


class Learning(Remembered):
    """A fact, a rule of thumb, or something to avoid; one or two sentences in `text`."""

    kind: Literal["learning"]
    sort: Sort


class Episode(Remembered):
    """One ended run: what was asked, how it ended, and in `text` what worked."""

    kind: Literal["episode"]
    goal: str
    outcome: Outcome
    best_score: Share | None = None


class OldText(FrozenModel):
    """An earlier version of a skill."""

    version: int
    text: str
    source: str = ""


class Skill(Remembered):
    """A named procedure; `text` is its Markdown.

    What a run writes is a proposal: `proposed_by` names the run, and `approved` is false until a
    person says otherwise (None: nobody needs to). `earlier` are the versions before this one.
    `effectiveness` is the share of its `judged` runs that were accepted, its first value counting
    as one more run. `source` says where it came from: a file, a pattern, a run.
    """

    kind: Literal["skill"]
    name: str = Field(min_length=1)
    purpose: str = ""
    categories: tuple[str, ...] = ()
    deterministic: bool = False
    effectiveness: Share = 0.5
    judged: Count = 0
    version: int = Field(default=1, ge=1)
    source: str = ""
    approved: bool | None = None
    proposed_by: str = ""
    earlier: tuple[OldText, ...] = ()

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions whose texts are kept, the current one last."""
        return (*(old.version for old in self.earlier), self.version)


class Pattern(Remembered):
    """A habit that mining found; `subject` names it (a category, an hour, a pair of categories)."""

    kind: Literal["pattern"]
    sort: PatternSort
    subject: tuple[str, ...]
    seen: Count = 0
    state: PatternState = "proposed"


class Event(Remembered):
    """Something that happened at `created`, for mining; never shown to a model."""

    kind: Literal["event"]
    type: str = "run_ended"
    outcome: Outcome | None = None


MemoryEntry = Annotated[Learning | Episode | Skill | Pattern | Event, Field(discriminator="kind")]
MEMORY_ENTRY: TypeAdapter[Learning | Episode | Skill | Pattern | Event] = TypeAdapter(MemoryEntry)


def may_enter(entry: Remembered) -> bool:
    """Whether other runs may be shown the entry: a person or an accepted run wrote it.

    A skill that waits for approval may not, whoever wrote it.
    """
    # The text may quote findings, which a model wrote: a run that was not accepted must not steer
    # others.
    if isinstance(entry, Skill) and entry.approved is False:
        return False
    return not entry.origins or any(origin.outcome == "accepted" for origin in entry.origins)
