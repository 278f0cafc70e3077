"""The recall step: what is asked of memory before a run plans, and what came of it."""

from pydantic import AwareDatetime

from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef


class RecallRequest(ActivityMessage):
    """Look up what earlier runs learned about a task.

    `token_limit` is what both blocks together may take, already the share of the run's budget
    (`recall_allowance`); `skills` are names that the task asks for. An empty `goal` is only met by
    skills that are asked for.
    """

    run: str
    goal: str
    category: str | None = None
    token_limit: int
    skills: tuple[str, ...] = ()
    now: AwareDatetime


class RecalledSkill(ActivityMessage):
    """A skill that the run was given."""

    id: str
    name: str
    version: int = 1
    deterministic: bool = False
    score: float = 0.0
    requested: bool = False


class RecallReport(ActivityMessage):
    """What memory gave.

    `text` is the block of knowledge, `skills_text` that of skills; None where there is nothing.
    `used` are the ids of all that is shown, `left_out` the first titles of what found no place
    (`left_out_count` of them), `missing` the requested skills that memory does not hold, and
    `unreadable` counts the entries that were passed over because this version cannot read them.
    """

    text: BlobRef | None = None
    skills_text: BlobRef | None = None
    learnings: int = 0
    anti_patterns: int = 0
    similar_tasks: int = 0
    skills: tuple[RecalledSkill, ...] = ()
    used: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    missing: tuple[str, ...] = ()
    unreadable: int = 0
    summary: str = ""
    seconds: float = 0.0
