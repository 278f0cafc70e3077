"""Putting a question of a run to the person at an agent's client, where the client can ask."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel, Field, JsonValue, create_model

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.installation.access import Scope
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.interfaces.mcp.handler import Desk
from perdure.interfaces.mcp.settings import McpSite
from perdure.interfaces.open_gates import gate_in_full

INPUT_REQUIRED = "2026-07-28"
BY = "the person at an MCP client"


@asynccontextmanager
async def at_desk(
    site: McpSite, context: Context, *, scope: Scope, start: bool = False
) -> AsyncGenerator[Desk]:
    """The way in for one call; errors of ours become results that an agent can read."""
    try:
        async with site.desk(context.headers, scope=scope, start=start) as desk:
            yield desk
    except PerdureError as error:
        raise ToolError(site.told(error)) from error


def can_ask(context: Context) -> bool:
    """Whether the client says that it can put a form to a person."""
    offered = context.client_capabilities
    return offered is not None and offered.elicitation is not None


async def put(context: Context, desk: Desk, run: str, gate: Gate) -> "bool | InputRequiredResult":
    """Ask the person, and answer the gate with what they say; False when they did not.

    Clients of newer protocols are asked by a result that wants input, after which they call again
    with the answer; older ones within the call.
    """
    whole = await gate_in_full(gate, desk.services.blobs)
    told, form = f"{run} asks ({gate.name}): {whole.prompt}", form_of(gate)
    # Versions of the protocol are dates.
    if (context.protocol_version or "") < INPUT_REQUIRED:
        asked = await context.elicit(told, form)
        said = asked.data.model_dump() if isinstance(asked, AcceptedElicitation) else None
        return await _answered(desk, run, gate, said)
    # Bound to the very arguments that were shown: another question of this id has another key.
    key = f"{run}:{gate.id}:{gate.args_hash or ''}"
    given = (context.input_responses or {}).get(key)
    if given is None:
        params = ElicitRequestFormParams(message=told, requested_schema=form.model_json_schema())
        return InputRequiredResult(input_requests={key: ElicitRequest(params=params)})
    if not isinstance(given, ElicitResult) or given.action != "accept":
        return False
    return await _answered(desk, run, gate, given.content or {})


async def _answered(desk: Desk, run: str, gate: Gate, said: Mapping[str, object] | None) -> bool:
    if said is None:
        return False
    choice, text = said.get("choice"), said.get("text")
    answer = Answer(
        by=BY if desk.token is None else f"{BY} ({desk.token.name})",
        gate=gate.name,
        choice=choice if isinstance(choice, str) else None,
        text=text if isinstance(text, str) and text else None,
        args_hash=gate.args_hash,
    )
    await desk.services.gateway.verb(run, answer)
    return True


def form_of(gate: Gate) -> type[BaseModel]:
    """The form of an answer: one of the choices, a text, or both; MCP allows plain values alone."""
    said = Field(default="", description="What you want to say.")
    if not gate.choices:
        return create_model("GateAnswer", text=(str, Field(description="Your answer.")))
    offered: dict[str, JsonValue] = {"enum": list(gate.choices)}
    choice = Field(description="Your decision.", json_schema_extra=offered)
    if gate.free_text:
        return create_model("GateAnswer", choice=(str, choice), text=(str, said))
    return create_model("GateAnswer", choice=(str, choice))
