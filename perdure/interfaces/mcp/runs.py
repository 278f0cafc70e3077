"""Tools for runs of every kind: ready-made tasks, starting, waiting with a person, the result."""

import asyncio
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import InputRequiredResult, ToolAnnotations
from pydantic import Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import LoopKind
from perdure.domain.run.gates import Gate
from perdure.domain.run.loop_api import LoopStarted, parameters_of
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.interfaces.definitions import DEFINITIONS, definitions
from perdure.interfaces.mcp.asking import at_desk, can_ask, put
from perdure.interfaces.mcp.handler import Desk
from perdure.interfaces.mcp.settings import McpSite
from perdure.submission.packaged_tasks import definition_file
from perdure.submission.parse_yaml import read_file

LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
ASKS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
POLL_S = 0.5
LONGEST_S = 600

Settings = Annotated[
    JsonValue,
    Field(
        description="More fields as in a task file, such as budget, rubric, context or models: an "
        "object, or its JSON text.",
        json_schema_extra={"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]},
    ),
]
RunId = Annotated[str, Field(description="A run id, or a unique beginning of one.")]


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
    """Add the tools to a server."""

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
        goal: Annotated[str | None, Field(description="What is to be done, in words.")] = None,
        kind: Annotated[
            LoopKind | None, Field(description="agent, refine, roles or delegation.")
        ] = None,
        task: Annotated[str | None, Field(description="A name that run_tasks gives.")] = None,
        settings: Settings = None,
    ) -> LoopStarted:
        """Start a run of any kind, or a ready-made task, and return its id at once."""
        async with at_desk(site, context, scope="operate", start=True) as desk:
            fields = task_fields(goal=goal, kind=kind, task=task, settings=parameters_of(settings))
            return await desk.start_task(fields)

    @server.tool(annotations=LOOKS)
    async def run_result(context: Context, id: RunId) -> RunResult:
        """The output of a run that has ended, why it stopped, and what it cost."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.result(id)

    @server.tool(annotations=ASKS)
    async def run_wait(
        context: Context,
        id: RunId,
        seconds: Annotated[int, Field(ge=1, le=LONGEST_S, description="The longest wait.")] = 60,
    ) -> RunStatus | InputRequiredResult:
        """Wait until a run ends or asks a person; the person at your client is asked, if it can."""
        async with at_desk(site, context, scope="read") as desk:
            return await _wait(context, desk, id, seconds=seconds)


def task_fields(
    *, goal: str | None, kind: str | None, task: str | None, settings: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """The fields of what is to be started; what is said here wins over the ready-made task.

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
        return {"kind": "agent", **settings, **own}
    path = definition_file(f"definitions:{task.removeprefix('definitions:')}", DEFINITIONS)
    given = dict(read_file(path)) if path is not None else {}
    merged = {**given, **settings, **own}
    before, said = given.get("context"), settings.get("context")
    if isinstance(before, dict) and isinstance(said, dict):
        merged["context"] = {**before, **said}
    return merged


async def _unasked(desk: Desk, status: RunStatus, asked: set[str]) -> tuple[str, Gate] | None:
    """The next question of a run, or of one below it, that was not put yet; and who asks it."""
    for gate in status.gates:
        if gate.open and f"{status.id}:{gate.name}" not in asked:
            return status.id, gate
    for question in status.questions:
        if question.key in asked:
            continue
        asker = await desk.status(question.run)
        for gate in asker.gates:
            if gate.open and f"{asker.id}:{gate.name}" not in asked:
                return asker.id, gate
    return None


async def _wait(
    context: Context, desk: Desk, run: str, *, seconds: int
) -> RunStatus | InputRequiredResult:
    """Look until the run ended, asks something that nobody here may answer, or time is up."""
    loop, asked = asyncio.get_running_loop(), set[str]()
    until = loop.time() + seconds
    while True:
        status = await desk.status(run)
        if status.phase == "ended" or loop.time() >= until:
            return status
        waiting = await _unasked(desk, status, asked)
        if waiting is not None:
            asker, gate = waiting
            if not can_ask(context) or not await desk.may_answer(asker, gate):
                return status
            asked.add(f"{asker}:{gate.name}")
            answered = await put(context, desk, asker, gate)
            if answered is not True:
                return answered or await desk.status(run)
        await asyncio.sleep(POLL_S)
