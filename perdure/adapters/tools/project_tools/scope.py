"""Where a call's notes belong, and under which id they are kept however often the call is made."""

import dataclasses

from perdure.adapters.tools.host import AnyTool
from perdure.domain.projects.records import Reach, stable_id
from perdure.tool_decorator import ToolContext


def reach_of(context: ToolContext) -> Reach:
    """What the run that calls may see and change."""
    grant = context.grant
    return Reach(run=context.run, session=grant.session, project=grant.project)


def author_of(context: ToolContext) -> str:
    """Who writes something down: the stage where there are stages, else the run."""
    return context.stage or context.run


def id_of(kind: str, context: ToolContext, *more: str) -> str:
    """The id of what a call makes; a repeat of the call makes the same.

    The conversation is part of it, since two models may number their calls alike.
    """
    return stable_id(kind, context.idempotency_key, context.conversation, *more)


def shared(tool: AnyTool) -> AnyTool:
    """The tool, offered to runs of a session or project alone."""
    return dataclasses.replace(tool, fact=tool.fact.model_copy(update={"shared": True}))
