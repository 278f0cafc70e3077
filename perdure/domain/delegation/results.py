"""The result of a worker, as stored and as the manager's rules read it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from perdure.domain.delegation.decisions import without_blanks
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.generated_tools.draft import NeededTool

Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


Texts = Annotated[tuple[str, ...], AfterValidator(without_blanks)]


class CreatedSkill(FrozenModel):
    """A procedure that a worker wrote down for later ones, as Markdown."""

    markdown: str


class Defect(FrozenModel):
    """One thing that is wrong with a result, by kind; `critical` ones are repaired."""

    category: str = "other"
    title: str
    fix: str = ""
    critical: bool = False


class WorkerResult(FrozenModel):
    """The structured result of one worker.

    Args:
        result: what it made: text or JSON.
        confidence: its own, None when it gave none.
        findings: what it found out, one sentence each.
        artifacts: files that it wrote.
        skills_created: procedures for later workers.
        tools_needed: tools that it wants made.
        tools_created: names of tools that were made for it.
        defects: what it knows to be wrong.
        unread: what of its reply nobody could read, one sentence each.
        unread_tools: the same of the tools that it wants made.
    """

    result: JsonValue = None
    confidence: Confidence | None = None
    findings: Texts = ()
    artifacts: Texts = ()
    skills_created: tuple[CreatedSkill, ...] = ()
    tools_needed: tuple[NeededTool, ...] = ()
    tools_created: Texts = ()
    defects: tuple[Defect, ...] = ()
    unread: Texts = ()
    unread_tools: Texts = ()


WorkerEnd = Literal["done", "crashed", "deferred", "refused"]


class WorkerReport(FrozenModel):
    """One worker of one iteration as the manager's rules see it.

    Args:
        worker: its id as given.
        subtask: the node of the plan that it worked on.
        end: whether it came back with something; `deferred` work has not begun.
        confidence: its own, or the one derived; None for a crash, which no mean counts.
        stated: its own alone.
        doubtful: it stated none, and its work gives a reason to doubt it: the derived one counts.
        key_finding: one line for the rolling summary.
        error: why it crashed, was deferred or refused.
        output: the address of its result.
        critique: the reviewer's score.
        usable: there is something in the result.
        cut_short: a limit or a person ended it before it said how far it had come.
    """

    worker: str
    subtask: str | None = None
    end: WorkerEnd = "done"
    confidence: Confidence | None = None
    stated: Confidence | None = None
    doubtful: bool = False
    key_finding: str = ""
    error: str = ""
    output: str | None = None
    critique: Confidence | None = None
    usable: bool = False
    cut_short: bool = False
    artifacts: tuple[str, ...] = ()
    run: str | None = None

    @property
    def judged(self) -> float | None:
        """How good it is, by the reviewer, the worker, or its flaws; None if nobody said."""
        # Silence about confidence fails no work: what was derived counts only if it is doubtful.
        own = self.confidence if self.doubtful else self.stated
        return own if self.critique is None else self.critique

    @property
    def rating(self) -> float | None:
        """The same, or else what was derived."""
        return self.confidence if self.critique is None else self.critique
