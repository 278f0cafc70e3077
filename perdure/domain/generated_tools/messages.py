"""Requests and reports of the steps that make tools, and the limits that they keep."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.spec_size_limits import Count
from perdure.domain.generated_tools.rejections import ToolRefused, refused
from perdure.domain.run.activity_messages import ModelCallRequest, StructuredReport


class ToolsFactorySettings(FrozenModel):
    """Whether workers may make tools while they work, and how many.

    Args:
        enabled: whether any tool is made.
        approve: whether a person approves each tool, by its hash, before anybody may call it.
        per_agent: tools that one worker may make.
        per_run: tools that the run may make.
        repairs: how often a tool that did not pass a check is repaired.
        namespaces: what the names of tools may begin with; empty allows all that are not reserved.
        worker_namespaces: the same for single workers, by their id.
    """

    enabled: bool = True
    approve: bool = False
    per_agent: Count = 10
    per_run: Count = 50
    repairs: Annotated[int, Field(ge=0, le=10)] = 2
    namespaces: tuple[str, ...] = ()
    worker_namespaces: dict[str, tuple[str, ...]] = {}


def limits_refusal(
    settings: ToolsFactorySettings, *, worker: str, makers: Iterable[str], made: int = 0
) -> ToolRefused | None:
    """Why one more tool of a worker is one too many, or None.

    Args:
        settings: the limits of the run.
        worker: who makes it.
        makers: the worker behind every tool that the run has made so far.
        made: how many the run and all runs beside and below it have made.
    """
    # The store counts over the whole tree. Denied tools count too: else people are asked for ever.
    known = list(makers)
    count = max(made, len(known))
    if count >= settings.per_run:
        return refused(
            "limits", 429, "limit", f"the run has made {count} of {settings.per_run} tools"
        )
    own = known.count(worker)
    if own >= settings.per_agent:
        return refused(
            "limits", 429, "limit", f"{worker} has made {own} of {settings.per_agent} tools"
        )
    return None


class MakeToolRequest(ActivityMessage):
    """Take one draft through the pipeline.

    `taken` are the tools of the run, name to hash, and `makers` the worker behind each that it made
    itself; `draft` is the address of the draft, `denied` what people denied this run, by hash.
    """

    run: str
    root: str
    worker: str
    draft: str
    settings: ToolsFactorySettings = ToolsFactorySettings()
    taken: dict[str, str] = {}
    makers: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


class MakeToolReport(ActivityMessage):
    """The tool's name and hash, or why it was refused.

    `cached`: this version had validated the same code before. `approved`: a person opened it to all
    runs, so that nobody has to be asked again. `question` is what a repair model is asked, `shown`
    the code for the person who is asked, shortened.
    """

    name: str
    hash: str = ""
    description: str = ""
    cached: bool = False
    approved: bool = False
    refused: ToolRefused | None = None
    question: BlobRef | None = None
    shown: str = ""
    seconds: float = 0.0


class RepairToolRequest(ActivityMessage):
    """One repair: a model call with a structured reply about a draft."""

    call: ModelCallRequest
    draft: str


class RepairToolReport(StructuredReport):
    """The address of the repaired draft, or the problems that make the reply none."""

    draft: str = ""
