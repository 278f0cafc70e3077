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
    """What to ask of a role's model chain; `structured` says which structure the reply is to have.

    `extra_tokens` is what entries will add that cannot be counted here; `model` is asked instead of
    the role's chain. The longest reply is `max_tokens`, or else what the role's settings say, or
    what the model can; it doubles as often as the call is `raised`, to `most_tokens` at most. With
    `continues` the reply goes on with what was said so far. One that `closes` a run is made short
    enough to fit. One that is `shaped` is to fit the run's output schema.
    `followed`: whether others are sure to begin with the same prompt (False: none follows).
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
