"""What a loop asks of a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.control import Phase
from perdure.domain.turns.entries import Entry
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.structured_replies import StructuredReplies


@dataclass(frozen=True, slots=True)
class ModelCallSpec:
    """What to ask of a role's model chain.

    Args:
        role: whose models are asked; `model` is asked instead of them.
        phase: where its spend is booked.
        summary: names the step in Temporal's UI.
        head: the conversation so far, to which `entries` are appended.
        on_offer: the tools that may be called; None offers all of the run, `tools_off` none.
        wrap_up: the call may use the reserve of the budget.
        records: finished iterations that the activity writes on its way.
        structured: the form of the reply; None for free text.
        extra_tokens: what entries add to the prompt that a workflow cannot count.
        max_tokens: the longest reply; None takes the role's setting, or what the model can.
        most_tokens: what the limit may grow to; it doubles as often as the call is `raised`.
        worker: the child run, or the work, that it is about.
        continues: a reply that was cut off, and that this one goes on with after the `seam`.
        closes: it ends the run, so its prompt is cut until it fits.
        shaped: the answer must match the run's output schema.
        followed: whether other calls begin with the same prompt; None if nobody knows.
    """

    role: str
    phase: Phase
    summary: str
    head: TranscriptRef | None = None
    entries: Sequence[Entry] = ()
    on_offer: tuple[str, ...] | None = None
    tools_off: bool = False
    wrap_up: bool = False
    records: tuple[IterationRecord, ...] = ()
    structured: StructuredReplies | None = None
    extra_tokens: int = 0
    max_tokens: int | None = None
    most_tokens: int | None = None
    raised: int = 0
    model: str | None = None
    worker: str | None = None
    continues: BlobRef | None = None
    seam: str = ""
    closes: bool = False
    shaped: bool = False
    followed: bool | None = None
