"""The bodies of requests and responses that no other interface has."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import Query
from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LONGEST_RUN_ID
from perdure.domain.foundation.plain_text import require_not_blank
from perdure.domain.llm.transcript import Message
from perdure.domain.projects.records import Artifact
from perdure.domain.run.messages import CHOICE_CHARACTERS, TEXT_LIMIT_BYTES
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import DimensionRecord, IterationRecord
from perdure.gateway.types import OpenGate, RunRow
from perdure.interfaces.model_calls import ModelCall

FRESH_NOTE = "Runs of the last seconds may be missing from lists and counts; one run is exact."
Text = Annotated[str, Field(max_length=TEXT_LIMIT_BYTES)]
RunId = Annotated[str | None, Query(max_length=LONGEST_RUN_ID)]


class Body(FrozenModel):
    """A body of a request: a field that is not known is refused."""

    # Built at once: FastAPI hides a warning of pydantic only while it builds a route.
    model_config = ConfigDict(defer_build=False)


class StopBody(Body):
    """How to end."""

    mode: Literal["graceful", "now"] = "graceful"


class NoteBody(Body):
    """Words for the next prompt, or for the question."""

    note: Text = ""


class AmendBody(Body):
    """What to change; at least one of these."""

    budget: dict[str, JsonValue] = Field(default={}, examples=[{"cost_usd": 3}])
    rubric: list[JsonValue] | None = None
    guidance: Text | None = None
    remove: tuple[int, ...] = ()


class InputBody(Body):
    """Something to say before the next model call."""

    text: Annotated[str, Field(min_length=1, examples=["Mention the price, too."])]


class ForkBody(Body):
    """What a fork goes on from, and what changes in it; `set` has any other field by its path."""

    iteration: Annotated[int, Field(ge=1, le=1_000_000)]
    goal: Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT_BYTES)] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    quality: Annotated[float, Field(gt=0, le=1)] | None = None
    budget: dict[str, JsonValue] = Field(default={}, examples=[{"cost_usd": 3}])
    model: str | None = None
    label: Annotated[str, Field(max_length=512)] | None = None
    set: dict[str, JsonValue] = Field(default={}, examples=[{"refine.patience": 3}])


class AnswerBody(Body):
    """An answer: a choice, a text, or both; an approval repeats the hash of the arguments."""

    choice: str | None = Field(
        default=None, max_length=CHOICE_CHARACTERS, examples=["approve", "continue"]
    )
    text: Text | None = None
    args_hash: str | None = Field(default=None, max_length=64)


class PatchBody(Body):
    """What may be edited of a run; a field that is left out stays, metadata is merged deeply."""

    goal: (
        Annotated[
            str, Field(min_length=1, max_length=TEXT_LIMIT_BYTES), AfterValidator(require_not_blank)
        ]
        | None
    ) = None
    max_iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    label: Annotated[str, Field(max_length=512)] | None = None
    metadata: dict[str, JsonValue] | None = Field(default=None, examples=[{"team": "web"}])


class Started(FrozenModel):
    """A run that was started, or found by its idempotency key; `notes` are for people."""

    id: str
    replayed: bool = False
    status: RunStatus
    notes: tuple[str, ...] = ()


class Page(FrozenModel):
    """What every page has: `cursor` leads to the next one, null on the last."""

    cursor: str | None = None
    note: str = ""


class Runs(Page):
    """One page of runs, the newest first."""

    items: tuple[RunRow, ...] = ()


class Count(FrozenModel):
    """How many runs are running."""

    count: int
    note: str = FRESH_NOTE


class Iterations(Page):
    """One page of iterations, the first one first."""

    items: tuple["IterationLine", ...] = ()


class KeptArtifacts(Page):
    """One page of what a run kept: outputs of stages, notes, rolling summaries of a manager."""

    id: str
    items: tuple[Artifact, ...] = ()


class History(Page):
    """One page of full iteration records."""

    id: str
    kind: str
    items: tuple[IterationRecord, ...] = ()


class Gates(Page):
    """What waits for a person, oldest first.

    `unread` runs wait, and their worker is away, or `reasons` says why their answer is not read.
    """

    items: tuple[OpenGate, ...] = ()
    unread: tuple[str, ...] = ()
    reasons: dict[str, str] = {}


class Transcript(Page):
    """One page of what was said, the oldest first."""

    id: str
    head: str
    items: tuple[Message, ...] = ()


class IterationLine(FrozenModel):
    """One iteration in a list."""

    index: int
    decision: str
    score: float | None = None
    findings: int = 0
    error: str | None = None
    model: str | None = None
    cost_usd: Decimal | None = None
    tokens: int = 0
    started_at: datetime | None = None
    duration_s: float = 0.0


class Iteration(FrozenModel):
    """One iteration with what it wrote."""

    record: IterationRecord
    output: str | None = None


class Best(FrozenModel):
    """The best output so far; `dimensions` come with its record, `scores` may be known before."""

    iteration: int
    score: float | None = None
    output: str | None = None
    dimensions: dict[str, DimensionRecord] = {}
    scores: dict[str, float] = {}


class ModelCalls(Page):
    """One page of the model calls of an iteration, the oldest first."""

    items: tuple[ModelCall, ...] = ()


class RunMetrics(FrozenModel):
    """A run in figures: how often what happened, and what it cost."""

    id: str
    kind: str
    lifecycle: str
    iterations: int
    by_decision: dict[str, int] = {}
    by_evaluation: dict[str, int] = {}
    findings: dict[str, int] = {}
    errors: int = 0
    tool_calls: int = 0
    model_calls: int = 0
    stages: dict[str, dict[str, int]] = {}
    verdicts: dict[str, int] = {}
    rework: int = 0
    tokens: int = 0
    cost_usd: Decimal | None = None
    duration_s: float = 0.0


class Readiness(FrozenModel):
    """Whether work can be done; `parts` only for callers with a token."""

    ready: bool
    parts: dict[str, bool] = {}
