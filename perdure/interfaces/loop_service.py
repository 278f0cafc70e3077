"""Control of loops of roles, for commands, the MCP server and runs that start loops."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TypeVar
from uuid import uuid4

from pydantic import JsonValue

from perdure.domain.budget.accounting import Reservation
from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.termination_conditions import leaves
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, PerdureError
from perdure.domain.foundation.names import ALL
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.roles.definition_library import DefinitionStore, StoredDefinition
from perdure.domain.run.loop_api import (
    ListedRun,
    ListedRuns,
    LoopAction,
    LoopAsk,
    LoopControlled,
    LoopFacts,
    LoopParameter,
    LoopRow,
    LoopRows,
    LoopStarted,
    action_of,
    status_of,
)
from perdure.domain.run.messages import AnyMessage, Pause, Resume, Retry, Stop
from perdure.domain.run.spec import ROOT_RUN, STARTED_BY
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.gateway.claim_run_id import key_digest
from perdure.gateway.stored_status import amended_spec
from perdure.gateway.types import Reach, RunFilter, RunPage
from perdure.interfaces.envelopes import Share, StartedLoop, held_by, share_of
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.starters import Noted
from perdure.interfaces.tokens import starter_of, trusted_places
from perdure.submission.loading import load_data, store
from perdure.submission.types import Flags, Submission, Surroundings, as_workers_see

ROWS = 50
# Where few runs are within reach, all runs would otherwise be read for one list.
PAGES_SEARCHED = 10
READ_AT_ONCE = 2_000
NO_FLAGS = Flags()
Limit = TypeVar("Limit", int, Decimal)
Row = TypeVar("Row", bound=LoopRow)
Require = Callable[[Mapping[str, JsonValue]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopService:
    """The port `LoopControl`, implemented with the gateway.

    Args:
        gateway: the runs.
        definitions_kept: the definitions that can be named.
        records: rows of runs, which say what a run was started with.
        blobs: specifications and the files they name.
        journal: what runs spent.
        surroundings: where submissions are made.
        by: who steers, for audit trails.
        workspace: the folder for runs that name none; None: scratch folders.
        flags: what the command line sets over the defaults.
    """

    gateway: RunGateway
    definitions_kept: DefinitionStore
    records: RecordStore
    blobs: BlobStore
    journal: Journal
    surroundings: Surroundings
    by: str
    workspace: str | None = None
    flags: Flags = NO_FLAGS

    async def definitions(self) -> tuple[LoopFacts, ...]:
        """All definitions that a run here may name, sorted by name."""
        library = await self.definitions_kept.library(self.workspace)
        return tuple(_facts(library.definitions[name]) for name in sorted(library.definitions))

    def submission(self, ask: LoopAsk) -> Submission:
        """The submission that a start would make."""
        data: dict[str, JsonValue] = {
            "kind": "roles",
            "goal": ask.goal,
            "roles": {
                "definition": ask.definition,
                "parameters": ask.parameters,
                "max_iterations": ask.max_iterations,
            },
        }
        if (workspace := ask.workspace or self.workspace) is not None:
            data["workspace"] = workspace
        return load_data(data, self.flags, surroundings=self.surroundings)

    async def start(self, ask: LoopAsk, *, noted: Noted | None = None) -> LoopStarted:
        """Start a run of a definition; with a caller, within the caller's budget and models."""
        submission = await as_workers_see(
            lambda around: replace(self, surroundings=around).submission(ask),
            self.surroundings,
            self.gateway.default_model,
        )
        if not ask.trusted:
            await self._require_harmless(submission.spec)
        spec = await store(submission, self.blobs)
        if ask.caller:
            above, started = await self._spec(ask.caller), await self._started_by(ask.caller)
            key = key_digest(ask.key) if ask.key else None
            # Before the share, which the loop of the first attempt holds a part of by now.
            again = [one.row.id for one in started if key and one.row.start_key == key]
            if again:
                return LoopStarted(id=again[0], notes=submission.notes)
            held = await held_by(self.journal, started)
            share = await share_of(self.journal, caller=ask.caller, above=above, held=held)
            spec = _below(spec, ask.caller, above, share=share)
        run = await self._begun(spec, key=ask.key, noted=noted)
        return LoopStarted(id=run, notes=submission.notes)

    async def start_task(
        self,
        fields: Mapping[str, JsonValue],
        *,
        files: bool,
        noted: Noted | None = None,
        require: Require | None = None,
    ) -> LoopStarted:
        """Start a run of any kind from the fields of a task file.

        Args:
            fields: of the task; without a workspace it gets that of this interface.
            files: whether values may name files beside it, as in a task file.
            noted: notes whose run it is.
            require: refuses what may not start, by the whole specification: defaults and the
                workspace of this interface count too.
        """
        data: dict[str, JsonValue] = dict(fields)
        if self.workspace is not None:
            data.setdefault("workspace", self.workspace)
        around = self.surroundings if files else replace(self.surroundings, folder=None)
        submission = await as_workers_see(
            lambda seen: load_data(data, self.flags, surroundings=seen),
            around,
            self.gateway.default_model,
        )
        if require is not None:
            await require(submission.spec.model_dump(mode="json", by_alias=True))
        run = await self._begun(await store(submission, self.blobs), noted=noted)
        return LoopStarted(id=run, notes=submission.notes)

    async def _begun(self, spec: Spec, *, key: str | None = None, noted: Noted | None) -> str:
        if noted is None:
            return await self.gateway.start(spec, idempotency_key=key, by=self.by)
        # Made here, as the note names the run before it begins.
        run = self.gateway.fresh_id(spec.kind, spec.goal)
        async with noted(run):
            return await self.gateway.start(spec, run_id=run, idempotency_key=key, by=self.by)

    async def _require_harmless(self, spec: Spec) -> None:
        fields = spec.model_dump(mode="json", by_alias=True)
        if places := await trusted_places(fields, self.definitions_kept):
            listed = ", ".join(places[:5])
            raise NotAllowed(
                f"Starting this takes the scope execute: it is asked for at {listed}.",
                cure="Use a token with it: perdure api token create NAME --scope execute",
            )

    async def rows(self, status: str | None = None, *, within: Reach | None = None) -> LoopRows:
        """The newest runs of loops; `within` says which it may have, without it all."""
        rows, note = await self._newest(LoopRow, status, kind="roles", within=within)
        return LoopRows(loops=rows, note=note)

    async def runs(self, status: str | None = None, *, within: Reach | None = None) -> ListedRuns:
        """The newest runs of every kind; `within` says which it may have, without it all."""
        rows, note = await self._newest(ListedRun, status, kind=None, within=within)
        return ListedRuns(runs=rows, note=note)

    async def _newest(
        self, row: type[Row], status: str | None, *, kind: str | None, within: Reach | None
    ) -> tuple[tuple[Row, ...], str]:
        wanted = RunFilter.model_validate(
            {"kind": kind, "status": status_of(status), "limit": ROWS}
        )
        fields, found, page = set(row.model_fields), list[Row](), RunPage()
        # Of a page of all runs, few may be within reach, or none.
        for _ in range(PAGES_SEARCHED):
            page = await self.gateway.list(wanted)
            for run in page.runs:
                if within is None or await within(run.id):
                    found.append(row.model_validate(run.model_dump(include=fields)))
            if len(found) >= ROWS or page.cursor is None:
                break
            wanted = wanted.model_copy(update={"cursor": page.cursor})
        more = ""
        if len(found) > ROWS or (page.cursor and len(found) == ROWS):
            more = f"There are more than {ROWS}."
        elif page.cursor:
            more = "There may be older ones, which were not looked for."
        return tuple(found[:ROWS]), " ".join(part for part in (page.note, more) if part)

    async def status(self, run: str) -> RunStatus:
        return await self.gateway.status(await self.gateway.resolve(run))

    async def control(
        self,
        action: str,
        run: str,
        *,
        note: str = "",
        caller: str = "",
        request: str = "",
        within: Reach | None = None,
    ) -> LoopControlled:
        """Steer one run or `all` open ones; a caller steers only runs that it started.

        `within` says which runs `all` may reach; without it, all of them.
        """
        chosen, run = await resolve_action_and_run(action, run, self.gateway.resolve)
        if run == ALL and chosen == "retry":
            raise InvalidInput("retry takes one run, not all.", cure="Name its id.")
        message = self._message(chosen, note, request=request, by=_by(caller))
        if run == ALL:
            if caller:
                within = partial(self._is_below, caller=caller)
            report = await self.gateway.verb_all(message, kind="roles", within=within)
            return LoopControlled(
                action=chosen, taken=report.taken, refused=report.refused, note=report.note
            )
        # The model that asks may have read hostile text, which names the runs of others.
        if caller and not await self._is_below(run, caller):
            raise NotAllowed(
                f"{run} was not started by this run.",
                cure="A run steers the loops that it started itself; ask a person for others.",
            )
        await self.gateway.verb(run, message)
        return LoopControlled(action=chosen, taken=(run,))

    async def held(self, caller: str) -> dict[str, Reservation]:
        """What the loops that a run started hold of its budget now."""
        return await held_by(self.journal, await self._started_by(caller))

    async def _started_by(self, caller: str) -> tuple[StartedLoop, ...]:
        """The loops that a run started.

        The rows come newest first, so the search stops at the first that is older than the run.
        """
        row = await self.records.run(caller)
        # By id: a loop that starts meanwhile shifts one that was read to the next page.
        found, read = dict[str, StartedLoop](), 0
        while page := await self.records.find_runs(
            prefix="roles-", limit=READ_AT_ONCE, offset=read
        ):
            for one in page:
                if row is not None and one.started_at < row.started_at:
                    return tuple(found.values())
                if one.spec is None:
                    continue
                spec = read_as(RUN_SPEC, await self.blobs.get(one.spec))
                if starter_of(spec) == caller:
                    found[one.id] = StartedLoop(row=one, spec=amended_spec(spec, one))
            read += len(page)
        return tuple(found.values())

    async def _is_below(self, run: str, caller: str) -> bool:
        try:
            spec = await self._spec(run)
        except NotFound:
            return False
        return starter_of(spec) == caller

    async def _spec(self, run: str) -> Spec:
        """The specification of a run, with the limits that people set since."""
        row = await self.records.run(run)
        if row is None or row.spec is None:
            raise NotFound(
                f"The store has no specification of the run {run}.",
                cure="`perdure list` lists all runs.",
            )
        return amended_spec(read_as(RUN_SPEC, await self.blobs.get(row.spec)), row)

    def _message(
        self, action: LoopAction, note: str, *, request: str = "", by: str = ""
    ) -> AnyMessage:
        common = {"by": by or self.by, "request_id": request or uuid4().hex}
        match action:
            case "pause":
                return Pause.model_validate(common)
            case "resume":
                return Resume.model_validate(common)
            case "stop":
                return Stop.model_validate(common)
            case "retry":
                return Retry.model_validate({**common, "note": note})


def _by(caller: str) -> str:
    return f"run {caller}" if caller else ""


def _facts(stored: StoredDefinition) -> LoopFacts:
    definition = stored.definition
    ends = ", ".join(leaf.type for leaf in leaves(definition.termination_condition))
    return LoopFacts(
        name=stored.name,
        description=" ".join(definition.description.split()),
        origin=stored.origin,
        stages=tuple(role.name for role in definition.roles),
        ends=ends,
        parameters=tuple(
            LoopParameter.model_validate(one.model_dump()) for one in definition.parameters
        ),
    )


def _below(spec: Spec, caller: str, above: Spec, *, share: Share) -> Spec:
    """A specification one level below its caller: the same models, and limits within its budget.

    Raises:
        NotAllowed: the caller may have no level below it.
    """
    depth = above.budget.depth
    if depth < 1:
        raise NotAllowed(
            f"The run {caller} may start no further runs: its budget.depth is {depth}.",
            cure="Do the work with your own tools.",
        )
    limits = spec.budget.model_copy(
        update={
            "depth": min(spec.budget.depth, depth - 1),
            "cost_usd": _lower(spec.budget.cost_usd, share.cost_usd),
            "tokens": _lower(spec.budget.tokens, share.tokens),
            # Its share is of tokens as the run above counts them.
            "count_cache_reads": spec.budget.count_cache_reads or above.budget.count_cache_reads,
        }
    )
    told = {**spec.metadata.model_dump(), STARTED_BY: caller, ROOT_RUN: _root_of(above, caller)}
    metadata = type(spec.metadata).model_validate(told)
    return spec.model_copy(
        update={
            "budget": limits,
            "metadata": metadata,
            # The starter's, whatever the defaults of the installation name.
            "models": above.models,
            "workspace": spec.workspace or above.workspace,
        }
    )


def _root_of(above: Spec, caller: str) -> str:
    found = above.metadata.model_dump().get(ROOT_RUN)
    return found if isinstance(found, str) else caller


def _lower(own: Limit | None, above: Limit | None) -> Limit | None:
    """The tighter of two limits; None and zero mean no limit."""
    stated = [limit for limit in (own, above) if limit]
    return min(stated, default=None)


async def resolve_action_and_run(
    action: str, run: str, resolve: Callable[[str], Awaitable[str]]
) -> tuple[LoopAction, str]:
    """Resolve the action and the run id; `all` stays unchanged.

    Raises:
        InvalidInput: there is no such action; the message also tells if there is no such run.
        NotFound: there is no such run.
    """
    problems: list[PerdureError] = []
    chosen: LoopAction = "pause"
    try:
        chosen = action_of(action)
    except InvalidInput as error:
        problems.append(error)
    try:
        run = run if run == ALL else await resolve(run)
    except NotFound as error:
        problems.append(error)
    match problems:
        case []:
            return chosen, run
        case [problem]:
            raise problem
        case _:
            told = " ".join(problem.message for problem in problems)
            raise InvalidInput(told, cure=" ".join(problem.cure for problem in problems))
