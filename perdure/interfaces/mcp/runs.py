"""Tools for runs of every kind: start, wait, ask the person at the client, read the result."""

import asyncio
from collections.abc import AsyncGenerator, Container, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import BaseModel, Field, JsonValue, create_model

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.foundation.names import LoopKind
from perdure.domain.installation.access import Scope
from perdure.domain.run.gates import Gate
from perdure.domain.run.loop_api import ListedRuns, LoopStarted, parameters_of
from perdure.domain.run.messages import Answer
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.interfaces.definitions import DEFINITIONS, definitions
from perdure.interfaces.mcp.handler import Desk, McpSite
from perdure.interfaces.mcp.text_parts import TextPart
from perdure.interfaces.run_tree import gate_in_full
from perdure.submission.layers import over
from perdure.submission.packaged_tasks import definition_file
from perdure.submission.task_file import read_file

INPUT_REQUIRED = "2026-07-28"
BY = "the person at an MCP client"


@asynccontextmanager
async def at_desk(
    site: McpSite, context: Context, *, scope: Scope, start: bool = False
) -> AsyncGenerator[Desk]:
    """The handler for one call; our errors become tool errors that an agent can read."""
    try:
        async with site.desk(context.headers, scope=scope, start=start) as desk:
            yield desk
    except PerdureError as error:
        raise ToolError(site.render_error(error)) from error


def can_ask(context: Context) -> bool:
    """Whether the client can show a form to a person."""
    offered = context.client_capabilities
    return offered is not None and offered.elicitation is not None


async def ask_person(
    context: Context, site: McpSite, desk: Desk, run: str, gate: Gate
) -> "bool | InputRequiredResult":
    """Ask the person and answer the gate with the reply; False without a reply.

    A client of a newer protocol gets a result that asks for input, and calls again with the answer.
    An older client is asked within the call.

    Raises:
        NotAllowed: the token ended while the person was asked.
    """
    whole = await gate_in_full(gate, desk.services.blobs)
    told, form = f"{run} asks ({gate.name}): {whole.prompt}", form_of(gate)
    # Protocol versions are dates, so they compare as text.
    if (context.protocol_version or "") < INPUT_REQUIRED:
        asked = await context.elicit(told, form)
        if not isinstance(asked, AcceptedElicitation):
            return False
        # Admitted anew: a person may take as long as they like, and the token end meanwhile.
        async with site.desk(context.headers, scope="answer") as now:
            return await _send_answer(now, run, gate, asked.data.model_dump())
    key = _key(run, gate)
    given = (context.input_responses or {}).get(key)
    if given is None:
        params = ElicitRequestFormParams(message=told, requested_schema=form.model_json_schema())
        return InputRequiredResult(input_requests={key: ElicitRequest(params=params)})
    if not isinstance(given, ElicitResult) or given.action != "accept":
        return False
    return await _send_answer(desk, run, gate, given.content or {})


def _key(run: str, gate: Gate) -> str:
    """What a reply is to; with the hash of the arguments, so that it answers no later gate."""
    return f"{run}:{gate.id}:{gate.args_hash or ''}"


async def _send_answer(desk: Desk, run: str, gate: Gate, said: Mapping[str, object]) -> bool:
    # A client may send what the form does not offer: the run itself refuses a wrong choice.
    choice, text = said.get("choice"), said.get("text")
    answer = Answer(
        by=BY if desk.token is None else f"{BY} ({desk.token.name})",
        gate=gate.name,
        choice=choice if isinstance(choice, str) and choice else None,
        text=text if isinstance(text, str) and text else None,
        args_hash=gate.args_hash,
    )
    await desk.services.gateway.verb(run, answer)
    return True


def form_of(gate: Gate) -> type[BaseModel]:
    """The form of an answer: a choice, a text, or both; MCP forms allow only plain values."""
    said = Field(default="", description="What you want to say.")
    if not gate.choices:
        return create_model("GateAnswer", text=(str, Field(description="Your answer.")))

    def offer(schema: dict[str, JsonValue]) -> None:
        schema["enum"] = list(gate.choices)
        schema.pop("default", None)  # that nothing is chosen is none of the choices

    choice = Field(description="Your decision.", json_schema_extra=offer)
    if not gate.free_text:
        return create_model("GateAnswer", choice=(str, choice))
    if gate.kind == "question":  # a person may answer in words of their own, as everywhere else
        told = "Your decision; without one, what you say is the answer."
        choice = Field(default="", description=told, json_schema_extra=offer)
    return create_model("GateAnswer", choice=(str, choice), text=(str, said))


LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
ASKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
POLL_S = 0.5
# Shorter than the minute after which common clients give a call up.
WAIT_S = 45
LONGEST_S = 600
# Clients that ask for progress start their clock anew with each word of it.
PROGRESS_S = 5

Settings = Annotated[
    JsonValue,
    Field(
        description="More fields as in a task file: an object, or its JSON text. Such as "
        '{"models": {"executor": "local"}, "budget": {"cost_usd": 0.5}, "tools": {"access": '
        '"readonly"}, "workspace": "/a/folder", "agent": {"max_iterations": 9}}; of refine also '
        '{"rubric": [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": '
        '60}}], "refine": {"max_iterations": 3, "quality_threshold": 0.8}}; of roles {"roles": '
        '{"definition": "harness"}}. A wrong field is refused with those that there are.',
        json_schema_extra={"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]},
    ),
]
RunId = Annotated[str, Field(description="A run id, or a unique beginning of one.")]
Status = Annotated[
    str | None, Field(description="running, paused, waiting, completed, failed or stopped.")
]


class Task(FrozenModel):
    """A ready-made task, with the inputs that it wants under `context`."""

    name: str
    kind: str
    about: str
    inputs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class Tasks(FrozenModel):
    """What `run_tasks` returns."""

    tasks: tuple[Task, ...]


def add_runs(server: MCPServer, site: McpSite) -> None:
    """Add the tools for runs of every kind."""
    _add_starting(server, site)
    _add_looking(server, site)
    _add_reading(server, site)


def _add_starting(server: MCPServer, site: McpSite) -> None:
    @server.tool(annotations=LOOKS)
    async def run_tasks(context: Context) -> Tasks:
        """The ready-made tasks that run_start takes, with their inputs."""
        async with at_desk(site, context, scope="read"):
            fields = set(Task.model_fields)
            return Tasks(
                tasks=tuple(
                    Task.model_validate(one.model_dump(include=fields)) for one in definitions()
                )
            )

    @server.tool(annotations=STARTS)
    async def run_start(
        context: Context,
        goal: Annotated[str | None, Field(description="What to do, in words.")] = None,
        kind: Annotated[
            LoopKind | None, Field(description="agent, refine, roles or delegation.")
        ] = None,
        task: Annotated[str | None, Field(description="A name that run_tasks gives.")] = None,
        settings: Settings = None,
    ) -> LoopStarted:
        """Start a run of any kind, or a ready-made task, and return its id at once."""
        async with at_desk(site, context, scope="operate", start=True) as desk:
            further = parameters_of(settings, of="settings")
            fields = task_fields(goal=goal, kind=kind, task=task, settings=further)
            return await desk.start_task(fields)


def _add_looking(server: MCPServer, site: McpSite) -> None:
    @server.tool(annotations=LOOKS)
    async def run_list(context: Context, status: Status = None) -> ListedRuns:
        """The newest runs of every kind; finds one whose start was not answered."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.runs(status)

    @server.tool(annotations=ASKS)
    async def run_wait(
        context: Context,
        id: RunId,
        seconds: Annotated[
            int, Field(ge=1, le=LONGEST_S, description="The longest wait; then call again.")
        ] = WAIT_S,
    ) -> RunStatus | InputRequiredResult:
        """Wait until a run ends or asks a person; the person at your client is asked, if it can."""
        async with at_desk(site, context, scope="read") as desk:
            return await wait(context, site, desk, id, seconds=seconds)


def _add_reading(server: MCPServer, site: McpSite) -> None:
    @server.tool(annotations=LOOKS)
    async def run_result(context: Context, id: RunId) -> RunResult:
        """The output of a run that has ended, why it stopped, and what it cost.

        Of a long output it has the beginning (`excerpt` is true): run_text reads the rest.
        """
        async with at_desk(site, context, scope="read") as desk:
            return await desk.result(id)

    @server.tool(annotations=LOOKS)
    async def run_text(
        context: Context,
        id: RunId,
        ref: Annotated[
            str, Field(description="An output_ref of run_result or loop_status: sha256:…")
        ],
        offset: Annotated[int, Field(ge=0, description="The character to begin with.")] = 0,
    ) -> TextPart:
        """A text that a run names by reference, 16,000 characters at a time; see `next_offset`."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.text(id, ref, offset=offset)


def task_fields(
    *, goal: str | None, kind: str | None, task: str | None, settings: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """The fields of the task to start; the caller's values override those of the ready-made task.

    Blocks are merged field by field, as with `--set` of the command line.

    Raises:
        InvalidInput: neither a goal nor a task is named.
        NotFound: there is no such task.
    """
    own = {name: value for name, value in (("goal", goal), ("kind", kind)) if value is not None}
    if task is None:
        if goal is None and "goal" not in settings:
            raise InvalidInput(
                "goal: found nothing.", cure="Say what is to be done, or name a task of run_tasks."
            )
        # What the caller said as an argument wins over the same field in the settings.
        return {"kind": "agent", **settings, **own}
    path = definition_file(f"definitions:{task.removeprefix('definitions:')}", DEFINITIONS)
    given = dict(read_file(path)) if path is not None else {}
    return over(given, {**settings, **own})


async def _next(
    desk: Desk, status: RunStatus, asked: set[str], replies: Container[str]
) -> tuple[str, Gate] | None:
    """The next unasked question with the run that asks; first one that a reply has come to.

    Another one may have moved ahead while the client asked its person.
    """
    first = None
    async for run, gate in _unasked(desk, status, asked):
        if not replies or _key(run, gate) in replies:
            return run, gate
        first = first or (run, gate)
    return first


async def _unasked(
    desk: Desk, status: RunStatus, asked: set[str]
) -> AsyncGenerator[tuple[str, Gate]]:
    """The unasked questions of a run and the runs below it, each with the run that asks."""
    for gate in status.gates:
        if gate.open and f"{status.id}:{gate.name}" not in asked:
            yield status.id, gate
    for question in status.questions:
        if question.key in asked:
            continue
        asker = await desk.status(question.run)
        for gate in asker.gates:
            if gate.open and f"{asker.id}:{gate.name}" not in asked:
                yield asker.id, gate


def _where(status: RunStatus) -> str:
    return f"{status.phase}, iteration {status.iteration}"


async def wait(
    context: Context, site: McpSite, desk: Desk, run: str, *, seconds: int
) -> RunStatus | InputRequiredResult:
    """Wait until the run ends, asks something that cannot be answered here, or time is up."""
    loop, asked = asyncio.get_running_loop(), set[str]()
    began = told = loop.time()
    until = began + seconds
    while True:
        status = await desk.status(run)
        if loop.time() - told >= PROGRESS_S:
            told = loop.time()
            await context.report_progress(told - began, seconds, _where(status))
            if desk.token is not None:
                # Admitted anew: a token may end while its client waits.
                async with site.desk(context.headers, scope="read"):
                    pass
        # The time before the questions, so that nobody is asked for whom no time is left.
        if status.phase == "ended" or loop.time() >= until:
            return status
        waiting = await _next(desk, status, asked, context.input_responses or {})
        if waiting is not None:
            asker, gate = waiting
            if not can_ask(context) or not await desk.may_answer(asker, gate):
                return status
            # Noted before the answer: the status may show an answered gate as open for a moment.
            asked.add(f"{asker}:{gate.name}")
            answered = await ask_person(context, site, desk, asker, gate)
            if answered is not True:
                return answered or await desk.status(run)
        await asyncio.sleep(POLL_S)
