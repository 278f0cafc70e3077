"""Requests to the steps that make and repair tools, and their reports."""

from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.generated_tools.limits import ToolsFactorySettings
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.run.activity_messages import ModelCallRequest, StructuredReport


class MakeToolRequest(ActivityMessage):
    """Take one draft through the pipeline.

    `taken` are the tools of the run, name to hash, and `makers` the worker behind each that it made
    itself; `draft` is the address of the draft.
    """

    run: str
    root: str
    worker: str
    draft: str
    settings: ToolsFactorySettings = ToolsFactorySettings()
    taken: dict[str, str] = {}
    makers: tuple[str, ...] = ()


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
