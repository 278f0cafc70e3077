"""Whose records a call may see, and stable ids for what it writes, also if it is repeated."""

import dataclasses

from perdure.adapters.tools.host import AnyTool
from perdure.domain.projects.records import Reach, stable_id
from perdure.extending.tool_decorator import ToolContext


def reach_of(context: ToolContext) -> Reach:
    """The records that the calling run may see and change."""
    grant = context.grant
    return Reach(run=context.run, session=grant.session, project=grant.project)


def author_of(context: ToolContext) -> str:
    """The author of a record: the stage, or the run if it has no stages."""
    return context.stage or context.run


def id_of(kind: str, context: ToolContext, *more: str) -> str:
    """The id of a record that a call writes; the same if the call is repeated.

    The conversation is part of it, since two models may number their calls alike.
    """
    return stable_id(kind, context.idempotency_key, context.conversation, *more)


def shared(tool: AnyTool) -> AnyTool:
    """The tool, marked as one that only loops of roles are offered (`ToolDefinition.shared`)."""
    return dataclasses.replace(tool, fact=tool.fact.model_copy(update={"shared": True}))
