"""Tools of MCP servers: pinned when a run opens, and called inside its grant.

If a server is gone, dies during a call, or has changed a tool, the result tells the model so.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import mcp.types as wire
from mcp import MCPError

from perdure.adapters.bounded_process.process import misfits_of
from perdure.adapters.logging.redacting import keep_secret, without_secrets
from perdure.adapters.mcp.connections import UNREADABLE, Link, Links, Target, server_error, words_of
from perdure.adapters.mcp.lost_answers import is_lost
from perdure.adapters.mcp.server_config import AllowedServers, ServerEntry
from perdure.adapters.mcp.tool_results import as_text, declined
from perdure.adapters.settings.secret_references import is_reference, resolve_reference
from perdure.adapters.tools import execution
from perdure.adapters.tools.arguments import arguments_error
from perdure.adapters.tools.execution import CallReturned, tool_output
from perdure.domain.foundation.errors import InvalidInput, ToolFailure
from perdure.domain.foundation.redaction import names_a_secret
from perdure.domain.ports import PinnedServers
from perdure.domain.tools.definitions import (
    DEFAULT_TIMEOUT_S,
    UNKNOWN_TOOL,
    AccessClass,
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)
from perdure.domain.tools.mcp_servers import (
    PREFIX,
    WORKSPACE_FOLDER,
    PinnedServer,
    PinnedServerTool,
    ServerSpec,
    appearance,
)
from perdure.domain.tools.selection import refusal
from perdure.extending.check_decorator import CheckFailed

TOOLS_AT_MOST = 128
TOLD_AT_MOST = 128 * 1024  # bytes of descriptions and schemas, which are in history and prompts
DESCRIPTION_AT_MOST = 2_000
PINNING_S = 60.0  # with the opening of a connection, which has a limit of its own
Secret = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The tool of one call: its server's entry, and what was pinned of it."""

    pinned: PinnedServerTool
    entry: ServerEntry
    spec: ServerSpec
    fact: ToolDefinition

    @property
    def repeatable(self) -> bool:
        """Whether calling twice does no harm."""
        rule = self.entry.rule(self.pinned.name)
        return bool(rule.idempotent) or self.fact.access == "read"


class McpServers:
    """The MCP servers that this worker's operator allows: pins their tools, and calls them.

    Args:
        book: the operator's list.
        secret: the value of an environment variable, or None.
    """

    def __init__(self, book: AllowedServers, *, secret: Secret) -> None:
        self._book = book
        self._secret = secret
        self._links = Links()

    async def aclose(self) -> None:
        """End every connection and program."""
        await self._links.aclose()

    def accesses(self, asked: Sequence[ServerSpec]) -> frozenset[AccessClass]:
        """The access classes that tools of these servers may have; raises `InvalidInput`."""
        return frozenset(one for spec in asked for one in self._book.admitted(spec).accesses)

    async def pin(self, asked: Sequence[ServerSpec], *, root: str) -> PinnedServers:
        """Ask every server for its tools, and pin their names and digests.

        Raises:
            InvalidInput: a server is not allowed, does not answer, or lists more than fits.
        """
        found = await asyncio.gather(*(self._pin(spec, root=root) for spec in asked))
        facts = tuple(fact for _, offered in found for fact in offered)
        told = sum(len(fact.model_dump_json()) for fact in facts)
        if len(facts) > TOOLS_AT_MOST or told > TOLD_AT_MOST:
            raise InvalidInput(
                f"tools.mcp: the servers offer {len(facts)} tools in {told:,} bytes; a run takes "
                f"at most {TOOLS_AT_MOST} in {TOLD_AT_MOST:,}.",
                cure="Pick some with `allow` in the entries of tools.mcp.",
            )
        return PinnedServers(servers=tuple(server for server, _ in found), facts=facts)

    def serves(self, name: str, grant: ToolGrant) -> bool:
        """Whether the name is that of an MCP tool, even an unknown one, which is refused here."""
        return name.startswith(PREFIX) and bool(grant.servers)

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Call a tool of a server inside the grant; failures are outputs."""
        try:
            wanted = self._wanted(envelope.name, grant)
            if why := refusal(wanted.fact, grant):
                return tool_output("denied", why, code="denied")
            return await self._run(wanted, envelope, grant)
        except ToolFailure as failure:
            return tool_output("error", failure.message, code=failure.reason)
        except InvalidInput as error:
            return tool_output("denied", str(error), code="denied")
        except Exception as error:
            text = f"{envelope.name} failed: {words_of(error)}"
            return tool_output("error", text, code="tool_failed")

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """Check that the server still has the pinned tool, and that it accepts these arguments."""
        try:
            wanted = self._wanted(envelope.name, grant)
            if why := refusal(wanted.fact, grant):
                return Rehearsal(refused=tool_output("denied", why, code="denied"))
            target = await self._target(wanted.spec, wanted.entry, root=grant.root)
            async with asyncio.timeout(DEFAULT_TIMEOUT_S):
                tool = await self._as_pinned(target, wanted)
                await _check(_fact(wanted.fact.name, tool, wanted.entry), envelope)
        except ToolFailure as failure:
            told = tool_output("error", failure.message, code=failure.reason)
            return Rehearsal(refused=told)
        except InvalidInput as error:
            return Rehearsal(refused=tool_output("denied", str(error), code="denied"))
        except Exception as error:
            text = f"{envelope.name} cannot be asked: {words_of(error)}"
            return Rehearsal(refused=tool_output("error", text, code="tool_failed"))
        return Rehearsal()

    async def _pin(
        self, spec: ServerSpec, *, root: str
    ) -> tuple[PinnedServer, tuple[ToolDefinition, ...]]:
        entry = self._book.admitted(spec)
        try:
            tools = await self._first(await self._target(spec, entry, root=root))
        except (ToolFailure, MCPError) as error:
            raise InvalidInput(
                f"tools.mcp: {_said(spec, error)}",
                cure="Have its operator look at it on the worker, or leave it out.",
            ) from error
        offered = {
            f"{spec.prefix}{name}": tool
            for name, tool in sorted(tools.items())
            if entry.offers(name, spec)
        }
        pinned = {
            full: PinnedServerTool(name=tool.name, digest=_digest(tool))
            for full, tool in offered.items()
        }
        facts = tuple(_fact(full, tool, entry) for full, tool in offered.items())
        return PinnedServer(spec=spec, tools=pinned), facts

    def _wanted(self, name: str, grant: ToolGrant) -> _Wanted:
        for server in grant.servers:
            pinned = server.tools.get(name)
            if pinned is not None:
                # Checked again, because the operator may have changed the list meanwhile.
                entry = self._book.admitted(server.spec)
                if not entry.offers(pinned.name, server.spec):
                    raise InvalidInput(f"{name} is no longer allowed on this worker.")
                access = entry.rule(pinned.name).access or entry.access
                fact = ToolDefinition(name=name, description="", parameters={}, access=access)
                return _Wanted(pinned, entry, server.spec, fact)
        known = ", ".join(full for server in grant.servers for full in server.tools) or "none"
        raise ToolFailure(
            f"There is no tool named {name!r}. MCP tools on offer: {known}.", reason=UNKNOWN_TOOL
        )

    async def _run(self, wanted: _Wanted, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        rule = wanted.entry.rule(wanted.pinned.name)
        timeout_s = envelope.timeout_s or rule.timeout_s or DEFAULT_TIMEOUT_S
        target = await self._target(wanted.spec, wanted.entry, root=grant.root)
        outcome = await execution.run(
            partial(self._talk, target, wanted, envelope),
            timeout_s=timeout_s,
            stop=execution.Stop(),
        )
        if isinstance(outcome, CallReturned) and isinstance(outcome.value, ToolOutput):
            return outcome.value
        text = f"{wanted.fact.name} did not finish within {timeout_s:g} s and was told to stop."
        if not wanted.repeatable:
            text += " What it changed until then is not known: look before you repeat it."
        return tool_output("error", text, code="timeout")

    async def _talk(self, target: Target, wanted: _Wanted, envelope: ToolInvocation) -> ToolOutput:
        # Listed before each call: a connection that is lost shows while nothing has been sent.
        tool = await self._as_pinned(target, wanted)
        await _check(_fact(wanted.fact.name, tool, wanted.entry), envelope)
        async with self._links.to(target) as link:
            try:
                result, asked = await link.call(wanted.pinned.name, envelope.arguments)
            except MCPError as error:
                return _failed(wanted, link, error)
            except ToolFailure as failure:
                if failure.reason != UNREADABLE:
                    raise
                return _ran(wanted, failure.message)
        text = as_text(result) + "".join(declined(question) for question in asked)
        if result.is_error:
            return tool_output("error", text, code="tool_failed")
        if problem := await _misshapen(tool, result):
            return _ran(wanted, f"{wanted.fact.name}: {problem}.")
        return tool_output("ok", text)

    async def _as_pinned(self, target: Target, wanted: _Wanted) -> wire.Tool:
        """The server's current tool, if it is the same as when the run opened."""
        tools = await self._now(target)
        tool = tools.get(wanted.pinned.name)
        if tool is None or _digest(tool) != wanted.pinned.digest:
            what = "is gone from" if tool is None else "changed on"
            raise ToolFailure(
                f"{wanted.fact.name} {what} its server since the run opened, so it was not called. "
                "Continue without it, or say that you need it.",
                reason="server_changed",
            )
        return tool

    async def _first(self, target: Target) -> dict[str, wire.Tool]:
        """The tools of a server when a run opens; no caller sets a deadline for that."""
        async with self._links.to(target) as link:
            try:
                async with asyncio.timeout(PINNING_S):
                    return await _listed(link)
            except TimeoutError as error:
                link.retire()
                raise server_error(target, f"it listed no tools within {PINNING_S:g} s") from error

    async def _now(self, target: Target) -> dict[str, wire.Tool]:
        """The server's current tools; a connection that was lost meanwhile is opened once more."""
        async with self._links.to(target) as link:
            try:
                return await link.tools()
            except MCPError as error:
                _give_up(link, error)
        async with self._links.to(target) as link:
            try:
                return await _listed(link)
            except MCPError as error:
                raise ToolFailure(
                    f"The MCP server {target.name!r} does not answer: {error.message}. "
                    "Continue without it.",
                    reason="server_unavailable",
                ) from error

    async def _target(self, spec: ServerSpec, entry: ServerEntry, *, root: str) -> Target:
        if entry.url is not None:
            headers = await self._values(spec, entry.headers_from)
            keep_secret(headers.values())
            return Target(name=spec.name, url=entry.url, headers=headers)
        environment = await self._values(spec, {name: name for name in entry.env} | entry.env_from)
        # Not all variables: values such as a PATH must not be removed from texts.
        keep_secret(value for name, value in environment.items() if names_a_secret(name))
        return Target(
            name=spec.name,
            command=entry.command or (),
            folder=root if entry.cwd == WORKSPACE_FOLDER else entry.cwd,
            environment=environment,
        )

    async def _values(self, spec: ServerSpec, places: Mapping[str, str]) -> dict[str, str]:
        # In a thread, because following a reference may run a slow program.
        found = [await asyncio.to_thread(self._value, spec, place) for place in places.values()]
        return dict(zip(places, found, strict=True))

    def _value(self, spec: ServerSpec, name: str) -> str:
        if is_reference(name):
            try:
                return resolve_reference(f"An entry of the MCP server {spec.name!r}", name)
            except InvalidInput as error:
                raise ToolFailure(
                    f"{error.message} Its operator can correct it.", reason="server_unavailable"
                ) from None
        value = self._secret(name)
        if value is None:
            raise ToolFailure(
                f"The MCP server {spec.name!r} needs the variable {name}, which is not set on "
                "this worker. Its operator can set it.",
                reason="server_unavailable",
            )
        return value


async def _listed(link: Link) -> dict[str, wire.Tool]:
    """The tools of a server; if listing them fails, the connection is given up."""
    try:
        return await link.tools()
    except MCPError as error:
        _give_up(link, error)
        if link.excess:
            raise server_error(link.target, link.excess) from error
        raise


def _give_up(link: Link, error: MCPError) -> None:
    if error.code == wire.CONNECTION_CLOSED:
        link.drop()
    else:
        # The server may only have been busy: calls of others over this connection go on.
        link.retire()


def _failed(wanted: _Wanted, link: Link, error: MCPError) -> ToolOutput:
    name = wanted.fact.name
    if error.code == wire.CONNECTION_CLOSED:
        link.drop()
        why = f" ({link.excess})" if link.excess else ""
        said = f"The server of {name} ended in the middle of the call{why}"
    elif wanted.entry.url is not None and is_lost(error):
        said = f"The answer of the server of {name} is lost ({without_secrets(error.message)})"
    else:
        return tool_output("error", f"{name}: {error.message}", code="tool_failed")
    if wanted.repeatable:
        text = f"{said}. Calling again is safe."
        return tool_output("error", text, code="server_unavailable")
    text = f"{said}: whether it took effect is not known. Look before you repeat it."
    return tool_output("effect_uncertain", text, code="server_unavailable")


def _ran(wanted: _Wanted, problem: str) -> ToolOutput:
    """A call whose result is of no use, although the server did what it was asked for."""
    warning = "" if wanted.repeatable else " The call itself ran: look before you repeat it."
    return tool_output("error", f"{problem}{warning}", code="tool_failed")


async def _check(fact: ToolDefinition, envelope: ToolInvocation) -> None:
    try:
        problems = await misfits_of(fact.parameters, dict(envelope.arguments))
    except CheckFailed:
        return  # we cannot check this schema; the server checks its arguments itself
    if problems:
        raise arguments_error(fact, [*problems])


async def _misshapen(tool: wire.Tool, result: wire.CallToolResult) -> str:
    """How a result misses the server's own schema; empty if it fits, or cannot be checked."""
    if tool.output_schema is None:
        return ""
    if result.structured_content is None:
        return "the server promised structured content and sent none"
    try:
        problems = await misfits_of(tool.output_schema, result.structured_content)
    except CheckFailed:
        return ""
    return f"the answer is not what the server promised ({'; '.join(problems)})" if problems else ""


def _fact(full: str, tool: wire.Tool, entry: ServerEntry) -> ToolDefinition:
    rule = entry.rule(tool.name)
    said = (tool.description or tool.title or "").strip()
    cut = f"{said[:DESCRIPTION_AT_MOST]} […]" if len(said) > DESCRIPTION_AT_MOST else said
    return ToolDefinition(
        name=full,
        description=cut or f"{tool.name} of the MCP server that the task names.",
        parameters={"type": "object", **tool.input_schema},
        access=rule.access or entry.access,
        idempotent=bool(rule.idempotent),
        needs_approval=bool(rule.approve),
        timeout_s=rule.timeout_s or entry.timeout_s,
    )


def _digest(tool: wire.Tool) -> str:
    # With its words, which a server could change later to steer the model.
    return appearance(tool.name, tool.description or tool.title or "", tool.input_schema)


def _said(spec: ServerSpec, error: ToolFailure | MCPError) -> str:
    if isinstance(error, ToolFailure):
        return error.message
    return f"the MCP server {spec.name!r} did not tell its tools: {without_secrets(error.message)}."
