"""The tool host: checks grant and arguments, runs the tool with a deadline, limits its output.

Every failure becomes an output that tells the model what happened. Only cancellation is raised.
"""

import copy
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from pydantic import BaseModel, JsonValue, TypeAdapter

from perdure.adapters.stores.waiting_stores import patiently
from perdure.adapters.tools import arguments, execution
from perdure.adapters.tools.execution import Late, tool_output
from perdure.adapters.tools.results import as_text, output_of
from perdure.domain.foundation.errors import InvalidInput, PerdureError, StoreAway, ToolFailure
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.ports import ToolHost
from perdure.domain.tools.definitions import (
    HANDED_OVER_BYTES,
    UNKNOWN_TOOL,
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)
from perdure.domain.tools.selection import refusal
from perdure.extending.foreign_code import contained
from perdure.extending.tool_decorator import Arguments, Tool, ToolContext

AnyTool = Tool[..., object]
Obstacle = Callable[[], Awaitable[str]]

_ARGUMENTS: TypeAdapter[Arguments] = TypeAdapter(Arguments)

log = logging.getLogger(__name__)


class LocalToolHost:
    """Runs tools that are Python functions of this process (port `ToolHost`).

    Args:
        tools: built-in ones and those of plugins; names and aliases must be unique.
        grace_s: how long a late tool may take to stop before it is abandoned.
        obstacles: by name of tool, a function that says why it cannot be used here, or "".
    """

    def __init__(
        self,
        tools: Sequence[AnyTool],
        *,
        grace_s: float = execution.GRACE_S,
        obstacles: Mapping[str, Obstacle] | None = None,
    ) -> None:
        self._obstacles = dict(obstacles or {})
        self._tools = _by_name(tools)
        self._names = {
            alias: tool.fact.name
            for tool in tools
            for alias in (tool.fact.name, *tool.fact.aliases)
        }
        self._grace_s = grace_s
        self.abandoned: list[str] = []  # call ids of tools that ignored their deadline

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        """All tools of this host, by name."""
        return tuple([await self._fact(name) for name in sorted(self._tools)])

    async def _fact(self, name: str) -> ToolDefinition:
        fact, obstacle = self._tools[name].fact, self._obstacles.get(name)
        return (
            fact if obstacle is None else fact.model_copy(update={"unavailable": await obstacle()})
        )

    def serves(self, name: str, grant: ToolGrant) -> bool:
        """Whether a tool or alias has this name; the grant does not matter here."""
        return name in self._names

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool inside its grant.

        Args:
            envelope: who calls what, under which key.
            grant: what the run may use. It is checked here again: a model may call a tool that it
                was not offered.
        """
        tool = self._granted(envelope, grant)
        if isinstance(tool, ToolOutput):
            return tool
        try:
            # If the store is away, an idempotent tool waits and runs again; others might act twice.
            if tool.fact.idempotent:
                return await patiently(lambda: self._run(tool, envelope, grant))
            return await self._run(tool, envelope, grant)
        except StoreAway:
            raise  # this worker is being stopped; another one makes the call again
        except Exception as error:
            return _failed(tool.fact.name, error)

    def output_of(self, outcome: ToolOutcome, value: JsonValue) -> ToolOutput:
        return tool_output(outcome, as_text(value))

    def mended(self, name: str, given: Arguments) -> Arguments:
        """The arguments after the tool's own corrections; if these fail, the arguments as given.

        Args:
            name: of the tool, or an alias; the arguments of an unknown tool stay as given.
            given: the arguments that the model wrote.
        """
        tool = self._tools.get(self._names.get(name, ""))
        if tool is None or tool.mending is None:
            return given
        try:
            with contained():
                # A copy: code of the tool's author may change what it gets, and then fail.
                return _ARGUMENTS.validate_python(tool.mending(copy.deepcopy(given)))
        except Exception:
            log.exception("%s could not mend its arguments; they stay as given", name)
            return given

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Check a call's grant, requirements and arguments, and preview it, without running it."""
        tool = self._granted(envelope, grant)
        if isinstance(tool, ToolOutput):
            return Rehearsal(refused=tool)
        try:
            if why := (await self._fact(tool.fact.name)).unavailable:
                return Rehearsal(refused=tool_output("error", why, code="unavailable"))
            shows = await self._rehearsed(tool, envelope, grant)
            # Without a preview, whoever approves has to be shown all arguments.
            return Rehearsal(shows=shows, tells=tool.tells if shows else ())
        except Exception as error:
            return Rehearsal(refused=_failed(tool.fact.name, error))

    def _granted(self, envelope: ToolInvocation, grant: ToolGrant) -> AnyTool | ToolOutput:
        """The tool that is called, or the refusal for the model."""
        # By alias too: models call tools by names that they know from elsewhere.
        tool = self._tools.get(self._names.get(envelope.name, ""))
        if tool is None:
            return tool_output(
                "error",
                f"There is no tool named {envelope.name!r}. On offer: "
                f"{', '.join(grant.allowed) or 'none'}.",
                code=UNKNOWN_TOOL,
            )
        if why := refusal(tool.fact, grant):
            return tool_output("denied", why, code="denied")
        return tool

    async def _rehearsed(self, tool: AnyTool, envelope: ToolInvocation, grant: ToolGrant) -> str:
        arguments.check(tool.fact, envelope.arguments)
        parsed = arguments.parse(tool.fact, tool.arguments, envelope.arguments)
        if tool.rehearsal is None:
            return ""
        stop = execution.Stop()
        values = _values(tool, parsed, _context(envelope, grant, stop))
        outcome = await execution.run(
            partial(tool.rehearsal, **values),
            timeout_s=envelope.timeout_s or tool.fact.timeout_s,
            stop=stop,
            grace_s=self._grace_s,
        )
        if isinstance(outcome, Late):
            raise ToolFailure(
                f"{tool.fact.name} could not be previewed for approval in time, so it was not run.",
                reason="timeout",
            )
        return outcome.value if isinstance(outcome.value, str) else ""

    async def _run(self, tool: AnyTool, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        arguments.check(tool.fact, envelope.arguments)
        parsed = arguments.parse(tool.fact, tool.arguments, envelope.arguments)
        if tool.fact.activity is not None:
            return _handed_over(tool.fact, parsed)
        stop = execution.Stop()
        timeout_s = envelope.timeout_s or tool.fact.timeout_s
        call = partial(tool.function, **_values(tool, parsed, _context(envelope, grant, stop)))
        outcome = await execution.run(
            partial(output_of, call, stop), timeout_s=timeout_s, stop=stop, grace_s=self._grace_s
        )
        if isinstance(outcome, Late):
            return self._late(tool.fact, envelope, timeout_s=timeout_s, abandoned=outcome.abandoned)
        assert isinstance(outcome.value, ToolOutput)
        return outcome.value

    def _late(
        self, fact: ToolDefinition, envelope: ToolInvocation, *, timeout_s: float, abandoned: bool
    ) -> ToolOutput:
        text = f"{fact.name} did not finish within {timeout_s:g} s and was stopped."
        if abandoned:
            self.abandoned.append(envelope.call_id)
            text = (
                f"{fact.name} did not finish within {timeout_s:g} s, did not stop when asked, "
                "and was abandoned; it may still be running."
            )
        # An idempotent tool may simply be called again, and a reading one changed nothing.
        if not fact.idempotent and fact.access != "read":
            text += " What it changed until then is not known: look before you repeat it."
        return tool_output("error", text, code="timeout")


def _handed_over(fact: ToolDefinition, parsed: BaseModel) -> ToolOutput:
    """The output of a tool that is a foreign activity: the arguments to schedule it with."""
    given = parsed.model_dump(mode="json")
    size = len(json.dumps(given, ensure_ascii=False).encode())
    if size > HANDED_OVER_BYTES:
        raise ToolFailure(
            f"The arguments of {fact.name} take {size:,} bytes; an activity of a worker of its own "
            f"takes at most {HANDED_OVER_BYTES:,}. Send less, or a reference.",
            reason="invalid_arguments",
        )
    output = tool_output("ok", "")
    # The activity gets them by position: the order of the fields is that of its parameters.
    return output.model_copy(update={"handed_over": tuple(given.values())})


def _context(envelope: ToolInvocation, grant: ToolGrant, stop: execution.Stop) -> ToolContext:
    return ToolContext(
        run=envelope.run,
        call_id=envelope.call_id,
        idempotency_key=envelope.idempotency_key,
        grant=grant,
        conversation=envelope.conversation,
        iteration=envelope.iteration,
        stage=envelope.stage,
        stopping=stop.is_set,
    )


def _values(tool: AnyTool, parsed: BaseModel, context: ToolContext) -> dict[str, object]:
    # Not `model_dump`, which would turn the models that a tool declares into dictionaries.
    values: dict[str, object] = {name: getattr(parsed, name) for name in type(parsed).model_fields}
    if tool.context_name is not None:
        values[tool.context_name] = context
    return values


def _failed(name: str, error: Exception) -> ToolOutput:
    match error:
        case ToolFailure():
            return tool_output("error", error.message, code=error.reason)
        case PerdureError():
            return tool_output("error", str(error), code=error.code)
        case _:
            text = f"{name} failed with {type(error).__name__}: {error}"
            return tool_output("error", text, code="tool_failed")


def _by_name(tools: Sequence[AnyTool]) -> dict[str, AnyTool]:
    found: dict[str, AnyTool] = {}
    taken: dict[str, AnyTool] = {}
    for tool in tools:
        for name in (tool.fact.name, *tool.fact.aliases):
            if name in taken:
                raise _named_twice(name, once_more=taken[name].function is tool.function)
            taken[name] = tool
        found[tool.fact.name] = tool
    return found


def _named_twice(name: str, *, once_more: bool) -> InvalidInput:
    if not once_more:
        return InvalidInput(
            f"Two tools are named {name!r}.", cure="Rename one of them, or drop its alias."
        )
    return InvalidInput(
        f"Two tools are named {name!r}, and both are the same function.",
        cure="`rehearsed` and `mended` return the tool anew. Keep it under the name of the first "
        "one, as in `price = price.rehearsed(look)`; they are no decorators.",
    )


class ToolSource(Protocol):
    """A source of tools. Each checks the grant itself, and turns failures into outputs."""

    def serves(self, name: str, grant: ToolGrant) -> bool:
        """Whether this source runs the tool of that name for a run with this grant."""
        ...

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool inside its grant; cancellation is passed on."""
        ...

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Check and preview a call without running it."""
        ...


class CataloguedTools(ToolHost, ToolSource, Protocol):
    """A source whose tools are the same for every run."""


class ToolHosts:
    """The port `ToolHost` over several sources.

    Args:
        own: the tools that every run of this worker may be offered.
        sources: further tools that depend on the run; the first that serves a name is used.
    """

    def __init__(self, own: CataloguedTools, sources: Sequence[ToolSource] = ()) -> None:
        self._own = own
        self._sources = tuple(sources)

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        """The tools that do not depend on the run."""
        return await self._own.catalog()

    def mended(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The arguments after the tool's own corrections; those of other sources stay as given."""
        return self._own.mended(name, given)

    def output_of(self, outcome: ToolOutcome, value: JsonValue) -> ToolOutput:
        return self._own.output_of(outcome, value)

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool; for an unknown name the worker's own host answers."""
        return await self._source(envelope.name, grant).call(envelope, grant)

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Check and preview a call with the source that would run it."""
        return await self._source(envelope.name, grant).rehearse(envelope, grant)

    def _source(self, name: str, grant: ToolGrant) -> ToolSource:
        # The worker's own tools come first, so that no tool of a run can take one of their names.
        sources = (self._own, *self._sources)
        return next((source for source in sources if source.serves(name, grant)), self._own)
