"""One MCP request: what its token may start, see and steer.

A caller without a token is at this machine's keyboard and may do what the command line can. A token
reaches only runs of this installation, because other installations may share the server.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, PerdureError
from perdure.domain.installation.access import ApiToken, Scope
from perdure.domain.run.gates import Gate
from perdure.domain.run.loop_api import (
    ListedRuns,
    LoopAsk,
    LoopControlled,
    LoopRows,
    LoopStarted,
)
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.gateway.error_mapping import unknown_run
from perdure.gateway.types import OpenGates, Reach
from perdure.interfaces.loop_service import LoopService, resolve_action_and_run
from perdure.interfaces.mcp.text_parts import TextPart, part_of, shortened
from perdure.interfaces.places import hider
from perdure.interfaces.run_references import require_reference
from perdure.interfaces.services import Services
from perdure.interfaces.starters import noted
from perdure.interfaces.tokens import (
    caller_of,
    is_below,
    reaches,
    requested,
    require_start,
    trusted_places,
)

TOOLS = {
    "list": "run_list",
    "status": "loop_status",
    "watch": "run_wait",
    "result": "run_result",
    "gates": "loop_gates",
    "definitions": "run_tasks",
    "loops definitions": "loop_definitions",
}
ACTIONS = ("pause", "resume", "stop", "retry")
# Without backticks, the word after a command may belong to the sentence. Only a word with a dash
# counts as a run id there, as generated ids have dashes.
_RUN = r"(?: (?P<run>(?(tick)[\w.-]+|[\w.]+-[\w.-]*\w)))?"
_COMMAND = re.compile(
    rf"(?P<tick>`)?perdure (?P<verb>{'|'.join((*TOOLS, *ACTIONS))}){_RUN}(?(tick)`)(?![\w-])"
)


@dataclass(frozen=True, slots=True)
class Desk:
    """The services and loops for one caller.

    Args:
        services: of the installation.
        loops: what can be done with loops.
        token: the caller's; None over standard streams.
        now: when the request came.
    """

    services: Services
    loops: LoopService
    token: ApiToken | None
    now: datetime

    async def start(self, ask: LoopAsk) -> LoopStarted:
        """Start a loop; which token starts it is recorded first.

        Raises:
            NotAllowed: it takes the scope `execute`, which the token lacks.
        """
        if self.token is None:
            return await self.loops.start(ask)
        require_start(self.token, ask.model_dump(mode="json"))
        # The loop service then checks the whole specification, with the defaults in it.
        trusted = "execute" in self.token.grants
        asked = ask.model_copy(update={"trusted": trusted})
        ours = noted(self.services, self.token, at=self.now)
        return await self.loops.start(asked, noted=ours)

    async def start_task(self, fields: Mapping[str, JsonValue]) -> LoopStarted:
        """Start a run of any kind; which token starts it is recorded first.

        Raises:
            NotAllowed: it takes the scope `execute`, which the token lacks.
        """
        if self.token is None:
            # Who is at this machine's keyboard may name files, as in a task of the command line.
            return await self.loops.start_task(fields, files=True)
        # The folder first, since reading says whether there is such a folder on this host.
        require_start(self.token, fields)
        await self._require_served(self.token, fields.get("workspace"))
        ours = noted(self.services, self.token, at=self.now)
        allowed = partial(self._require_allowed, self.token)
        return await self.loops.start_task(fields, files=False, noted=ours, require=allowed)

    async def _require_served(self, token: ApiToken, folder: JsonValue) -> None:
        # That a folder exists on this host is told only of folders that runs have worked in.
        if "execute" in token.grants or folder is None or is_below(folder, token.folders):
            return
        if folder not in (await self.services.records.workspaces()).values():
            raise _takes_execute("workspace: no run has worked in that folder yet")

    async def _require_allowed(self, token: ApiToken, spec: Mapping[str, JsonValue]) -> None:
        require_start(token, spec)
        if "execute" in token.grants:
            return
        if places := await trusted_places(spec, self.services.definitions()):
            raise _takes_execute(*places[:5])

    async def result(self, run: str) -> RunResult:
        """The result of an ended run, short; raises `NotAllowed` while it is open."""
        return shortened(await self.services.gateway.result(await self._ours(run), wait=False))

    async def text(self, run: str, ref: str, *, offset: int) -> TextPart:
        """A part of a text that a run names by reference.

        Raises:
            NotFound: there is no such run, or it does not name this reference.
            InvalidInput: it is no text, or ends before the offset.
        """
        resolved = await self._ours(run)
        await require_reference(self.services, resolved, ref)
        return part_of(await self.services.blobs.get(ref), ref=ref, offset=offset)

    async def may_answer(self, run: str, gate: Gate) -> bool:
        """Whether the person at the caller's client may answer.

        The token needs the scope `answer`. If it started the run, it may not approve the run's tool
        calls: only its own client would say that a person approved.
        """
        if self.token is None:
            return True
        if "answer" not in self.token.grants:
            return False
        return gate.kind != "tool_approval" or not await requested(self.services, self.token, run)

    async def rows(self, status: str | None) -> LoopRows:
        """The newest loops within reach."""
        return await self.loops.rows(status, within=self._within)

    async def runs(self, status: str | None) -> ListedRuns:
        """The newest runs of every kind within reach."""
        return await self.loops.runs(status, within=self._within)

    async def gates(self) -> OpenGates:
        """The open questions of runs within reach."""
        found = await self.services.gateway.gates()
        ours = tuple([gate for gate in found.gates if await self._is_ours(gate.run)])
        unread = tuple([run for run in found.unread if await self._is_ours(run)])
        # Filtered like the rest: a reason names a run, and says something about its work.
        reasons = {run: why for run, why in found.reasons.items() if run in unread}
        return found.model_copy(update={"gates": ours, "unread": unread, "reasons": reasons})

    async def status(self, run: str) -> RunStatus:
        """The status of a loop; raises `NotFound`."""
        return await self.loops.status(await self._ours(run))

    async def control(self, action: str, run: str) -> LoopControlled:
        """Steer one loop, or `all` open ones within reach."""
        chosen, run = await resolve_action_and_run(action, run, self._ours)
        return await self.loops.control(chosen, run, within=self._within)

    @property
    def _within(self) -> Reach | None:
        """Which runs lists and `all` may have; None: every run."""
        return None if self.token is None else self._is_ours

    async def _ours(self, run: str) -> str:
        try:
            resolved = await self.services.gateway.resolve(run)
        except (InvalidInput, NotFound):
            # Its words list runs that are called alike, and so tell a bound token of those of
            # others, whose ids have words of their goals.
            if self.token is None or not self.token.bound:
                raise
            raise unknown_run(run[:80]) from None
        # As for a run that does not exist: whoever may not reach it learns nothing of it.
        if not await self._is_ours(resolved):
            raise unknown_run(run[:80])
        return resolved

    async def _is_ours(self, run: str) -> bool:
        return self.token is None or await reaches(self.services, self.token, run)


def _takes_execute(*places: str) -> NotAllowed:
    return NotAllowed(
        f"Starting this takes the scope execute: it is asked for at {'; '.join(places)}.",
        cure="Use a token with it: perdure api token create NAME --scope execute",
    )


# Opens the services for one request; with True, missing embedded services are started first.
Opened = Callable[[bool], AbstractAsyncContextManager[Services]]
LoopsOf = Callable[[Services, str], LoopService]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSite:
    """One installation, as the MCP interface sees it.

    Services are opened for each request: a client may keep the interface open for days, and idle
    embedded services stop and start again meanwhile.

    Args:
        opened: opens the services.
        loops_of: the loops in somebody's name.
        user: who steers if no token says so.
        tokens: whether every request must carry one (over HTTP).
        now: the clock.
        version: of the product.
        home: the installation's folder, which is hidden from callers over HTTP.
        rate_per_minute: requests of one token (or of one address without a usable one) a minute.
    """

    opened: Opened
    loops_of: LoopsOf
    user: str
    now: Callable[[], datetime]
    version: str
    tokens: bool = False
    rate_per_minute: int = 600
    home: str = ""

    @asynccontextmanager
    async def desk(
        self, headers: Mapping[str, str] | None, *, scope: Scope, start: bool = False
    ) -> AsyncGenerator[Desk]:
        """The handler for one request.

        Raises:
            NotAllowed: the token is not usable, or lacks the scope.
        """
        token = None
        if self.tokens:
            # Without starting anything: a caller without a usable token must not start services.
            async with self.opened(False) as services:
                token = await self._caller(services, headers or {}, scope)
        by = self.user if token is None else token.name
        async with self.opened(start) as services:
            yield Desk(services, self.loops_of(services, by), token=token, now=self.now())

    def render_error(self, error: PerdureError) -> str:
        """An error as text; over HTTP without paths of this host."""
        words = over_mcp(str(error))
        return hider(self.home)(words) if self.tokens else words

    async def _caller(
        self, services: Services, headers: Mapping[str, str], scope: Scope
    ) -> ApiToken:
        token, ended = await caller_of(
            headers.get("authorization"), services.access, now=self.now()
        )
        if token is None:
            make = "Make one: perdure api token create NAME --scope read --scope operate"
            detail, cure = ended or ("The request came without a usable token.", make)
            raise NotAllowed(detail, cure=cure)
        if scope not in token.grants:
            raise NotAllowed(
                f"The token {token.name!r} lacks the scope {scope}.",
                cure=f"Make one with it: perdure api token create NAME --scope {scope}",
            )
        return token


def over_mcp(words: str) -> str:
    """The same text with tools in place of commands."""
    return _COMMAND.sub(_tool, words)


def _tool(found: re.Match[str]) -> str:
    tick, verb, run = found["tick"] or "", found["verb"], found["run"]
    name = TOOLS.get(verb, "loop_control")
    given = [f"action {verb}"] if verb in ACTIONS else []
    given += [f"id {run}"] if run else []
    return f"{tick}{name}{tick}" + (f" with {' and '.join(given)}" if given else "")
