"""The state that a loop carries between steps and through continue-as-new; one object per run."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Self

from pydantic import BaseModel, ConfigDict, field_serializer

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.usage import Usage
from perdure.domain.run.child_questions import Forwarded, Question, known_below
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.control import Control, Phase
from perdure.domain.run.events import Ring
from perdure.domain.run.hooks import HookFailure
from perdure.domain.run.result import Mark, Origin
from perdure.domain.tools.workspaces import HostedFolder
from perdure.domain.turns.guidance import Said
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.tool_call_rules import ToolPolicy

RULES = 1
# The store has all of them; these travel with each continue-as-new.
RECORDS_KEPT = 20


def control_from_above(said: Sequence[Said]) -> Control:
    """The control of a run that begins with what people said to the runs above it."""
    # Its own numbers begin behind theirs, so that each number stays that of one text.
    return Control(standing=list(said), said_count=max((one.number for one in said), default=0))


class SpendSlice(BaseModel):
    """Spend of one phase or one model; `cost_usd` None when a price is unknown."""

    model_config = ConfigDict(extra="forbid")

    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    calls: int = 0


class LoopState(BaseModel):
    """What every kind of loop carries. `rules` is raised only at continue-as-new.

    `below` is what open children told of their questions, `told_above` the names of those that this
    run told the run above it, `forward` the answers that are still to be passed on.
    `hosted` is there only where the working folder is on one host of several.
    `unhooked` are iterations whose hooks were not called yet, `hook_failures` the newest failures.
    `findings_given` is the highest number that a judge's finding ever got.
    `unseen` says which models of the run cannot be shown which of its inputs.
    """

    model_config = ConfigDict(extra="forbid")

    rules: int = RULES
    started_at: datetime
    budget: Budget
    control: Control = Control()
    ring: Ring = Ring()
    phase: Phase = "starting"
    step: str | None = None
    step_since: datetime | None = None
    frame: str | None = None
    root: str = ""
    base_tree: str | None = None
    tree: str | None = None
    hosted: HostedFolder | None = None
    terms: list[ToolPolicy] = []
    cards: dict[str, ModelProfile] = {}
    queues: dict[str, str] = {}
    factors: dict[str, float] = {}
    replies: dict[str, tuple[int, int]] = {}
    chain_index: dict[str, int] = {}
    system_tokens: int = 0
    task_tokens: int = 0
    task_media: int = 0
    models_used: list[str] = []
    by_phase: dict[str, SpendSlice] = {}
    by_model: dict[str, SpendSlice] = {}
    by_child: dict[str, SpendSlice] = {}
    children: list[ChildStatus] = []
    children_started: int = 0
    records: list[IterationRecord] = []
    record_count: int = 0
    dropped_calls: int = 0
    findings_given: int = 0
    last: Mark | None = None
    best: Mark | None = None
    rolls: int = 0
    forked_from: Origin | None = None
    asking: dict[str, str] = {}
    told: dict[str, int] = {}
    notifies: bool | None = None
    below: dict[str, tuple[Question, ...]] = {}
    told_above: list[str] = []
    forward: list[Forwarded] = []
    unhooked: list[int] = []
    hook_failures: tuple[HookFailure, ...] = ()
    unseen: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: str | None = None
    explanation: str | None = None

    @property
    def asked_below(self) -> tuple[Question, ...]:
        """What waits for a person in the runs below, oldest first."""
        return known_below(self.below, self.children)

    def carried(self) -> Self:
        """The state as the next execution gets it, without what only grows."""
        # It is the input of that execution, and stays in its history for good.
        told = {name: count for name, count in self.told.items() if name in self.control.gates}
        return self.model_copy(update={"ring": self.ring.carried(), "told": told})

    def files_to_read(self, folder: str | None) -> tuple[str | None, str | None]:
        """The folder of a run below that only reads, and the tree that it begins with.

        It reads this run's working folder, or the user's `folder` where this run has none. Where
        the working folder is on one host of several, it gets a copy.
        """
        if self.base_tree is None:
            return folder, None
        if self.hosted is None:
            return self.root, None
        return None, self.hosted.tree or self.base_tree

    @field_serializer("records", when_used="json")
    def _brief(self, records: list[IterationRecord]) -> list[dict[str, object]]:
        # As in step messages, and for the same reason: continue-as-new writes the state twice.
        return [record.model_dump(mode="json", exclude_defaults=True) for record in records]
