"""The stages that need no sandbox, in their order; the activity adds those that do."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.generated_tools.code import Checked, check_code
from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.messages import MakeToolRequest, check_limits
from perdure.domain.generated_tools.naming import check_name
from perdure.domain.generated_tools.rejections import ToolRefused, refused
from perdure.domain.generated_tools.schema import check_schema
from perdure.domain.generated_tools.stub_detection import check_placeholder


@dataclass(frozen=True, slots=True)
class Admitted:
    """The run may have the tool: what is left to look at is the code."""


def check_admission(
    draft: ToolDraft, step: MakeToolRequest, *, catalog: Sequence[str], made: int = 0
) -> ToolRefused | Admitted:
    """Whether this run may have a tool of this name from this worker.

    These stages belong to the run, not to the code: they are passed anew on a hit in the cache.
    `made` tells how many other tools the runs of the tree made so far.
    """
    if not step.settings.enabled:
        told = "this run makes no tools (delegation.tools_factory.enabled is false)"
        return refused("enabled", 403, "disabled", told)
    name = check_name(
        draft,
        allowed=step.settings.namespaces,
        agent_allowed=step.settings.worker_namespaces.get(step.worker, ()),
        taken=step.taken,
        catalog=catalog,
    )
    if name is not None:
        return name
    if step.taken.get(draft.name) == draft.hash:
        return Admitted()  # the run has it already: nothing more is made
    limit = check_limits(step.settings, worker=step.worker, makers=step.makers, made=made)
    return limit or Admitted()


def check_text(draft: ToolDraft) -> Checked | ToolRefused:
    """Everything that can be seen without running the code."""
    checked = check_code(draft)
    if isinstance(checked, ToolRefused):
        return checked
    return check_schema(draft, checked.handler) or check_placeholder(checked) or checked
