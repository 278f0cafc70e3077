"""Experiments at Temporal: start, read, pause, stop, resume, add inputs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.budget.accounting import Money
from perdure.domain.experiments.messages import (
    ExperimentInput,
    Progress,
    Resumption,
    progress_of,
    shapes_of,
)
from perdure.domain.experiments.plan import (
    Entry,
    ExperimentBudget,
    Plan,
    digest_of,
    trial_task,
)
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.store import (
    ExperimentStore,
    Place,
    StoredExperiment,
    Totals,
    UnreadableExperiment,
)
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    Unreadable,
)
from perdure.domain.foundation.names import EXPERIMENT_WORKFLOW, fitting, loops_queue
from perdure.domain.foundation.problems import did_you_mean, format_value
from perdure.domain.ports import RecordStore
from perdure.domain.run.spec import Placement
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.claim_run_id import checked_id
from perdure.gateway.experiment_ids import require_free
from perdure.gateway.experiment_status import (
    ended_outside,
    experiment_status,
    failing_step,
    unreadable_status,
)
from perdure.gateway.start import Starter
from perdure.gateway.temporal_gateway import TemporalGateway

LAST = "@last"
ASKED = timedelta(seconds=5)
LOOKS, LOOK_PAUSE_S = 20, 0.1
KNOWN = 1_000


@dataclass(frozen=True)
class Experiments:
    """The experiments of one installation.

    Every method raises `NotFound` for an unknown experiment and `ServiceUnavailable` if the server
    does not answer; reading needs no server.

    Args:
        store: plans, inputs and trials.
        server: the connection to Temporal.
        starter: places runs, and checks for workers.
        records: has the id of the installation.
        now: the clock.
    """

    store: ExperimentStore
    _: KW_ONLY
    server: TemporalGateway
    starter: Starter
    records: RecordStore
    now: Callable[[], datetime]

    async def try_repeat(self, id: str, *, sent: str) -> bool:
        """Whether the same request made an experiment before, which begins now unless it has."""
        known = await self.store.get(id)
        if known is None or known.digest != sent:
            return False
        # Whoever made the row may have been killed before the start.
        if known.state != "ended":
            await self._begin(known)
        return True

    async def start(
        self, plan: Plan, entries: Sequence[Entry], *, id: str, sent: str | None = None
    ) -> str:
        """Start an experiment; the same id and request again is the same experiment.

        `sent` is the digest of the request, where prices or defaults have changed the plan since.

        Raises:
            InvalidInput: an arm cannot be run here.
            NoReadyWorker: a queue that an arm needs has no worker; nothing was started.
            NotAllowed: the id belongs to another experiment, to the runs of a deleted one, or to
                a run.
        """
        checked_id(id)
        digest = sent or digest_of(plan, entries)
        if await self.store.get(id) is None:
            await require_free(id, store=self.store, records=self.records, server=self.server)
            await self._require_ready(plan, entries[0])
            new = StoredExperiment(
                id=id, plan=plan, inputs=len(entries), digest=digest, created_at=self.now()
            )
            await self.store.create(new, entries)
        # Of several starts at once only the first is stored, so its digest decides. Earlier
        # versions kept that of the plan.
        for same in {digest, digest_of(plan, entries)}:
            if await self.try_repeat(id, sent=same):
                return id
        raise NotAllowed(f"The id {id} belongs to another experiment.", cure="Choose another id.")

    async def stored(self, id: str) -> StoredExperiment:
        found = await self.store.get(id)
        if found is None:
            raise NotFound(f"There is no experiment {id}.", cure="perdure experiment list")
        return found

    async def resolve(self, name: str) -> str:
        """The id for a unique prefix or `@last`."""
        known = await _ids(self.store)
        if name == LAST and known:
            return known[0]
        found = fitting(name, known)
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidInput(
                f"{name!r} is the beginning of {len(found)} experiments: {', '.join(found[:5])}.",
                cure="Give more of it.",
            )
        hint = did_you_mean(name, known)
        raise NotFound(f"There is no experiment {name!r}.{hint}", cure="perdure experiment list")

    async def list(
        self, *, limit: int = 100, after: Place | None = None
    ) -> Sequence[ExperimentStatus]:
        """Stored experiments, the newest first; neither server nor workers are asked."""
        found = await self.store.list(limit=limit, after=after)
        totals = await self.store.totals([one.id for one in found])
        return [
            unreadable_status(one)
            if isinstance(one, UnreadableExperiment)
            else experiment_status(one, totals[one.id], None)
            for one in found
        ]

    async def status(self, id: str) -> ExperimentStatus:
        stored = await self.stored(id)
        progress = None if stored.ended_at else await self._progress(id)
        return experiment_status(stored, await self._totals(id), progress)

    async def trials(self, id: str) -> Sequence[Trial]:
        """Its trials so far."""
        return await self.store.trials(id)

    async def entries(self, id: str) -> Sequence[Entry]:
        return await self.store.entries(id)

    async def pause(self, id: str) -> None:
        """Start no further trial; open runs go on."""
        await self._signal(id, "pause")

    async def stop(self, id: str, *, now: bool = False) -> None:
        """End after the open trials, or with `now` at once, with what they have.

        One whose workflow somebody ended at the server is noted as stopped.
        """
        try:
            await self._signal(id, "stop", "now" if now else "graceful")
        except NotAllowed:
            if (await self.stored(id)).state == "ended":
                raise
            await self.store.note(id, "ended", reason="stopped", at=self.now())

    async def resume(
        self, id: str, *, cost_usd: Money | None = None, tokens: int | None = None
    ) -> None:
        """Continue after a pause, a stop or a spent budget; ended trials are not repeated.

        A limit that is given replaces the one before, also while the experiment runs.

        Raises:
            InvalidInput: a limit is no amount above 0.
            NotAllowed: all its trials have ended.
        """
        limits = _limits(cost_usd=cost_usd, tokens=tokens)
        stored = await self.stored(id)
        if stored.state == "ended" and (await self._totals(id)).ended >= stored.trials:
            raise NotAllowed(
                f"All {stored.trials} trials of {id} have ended.",
                cure=f"Add inputs with `perdure experiment extend {id} FILE`.",
            )
        if limits != ExperimentBudget():
            budget = limits.over(stored.plan.budget)
            plan = stored.plan.model_copy(update={"budget": budget})
            await self.store.put_plan(stored.id, plan)
            stored = stored.model_copy(update={"plan": plan})
        await self._go_on(stored)

    async def extend(self, id: str, entries: Sequence[Entry], *, after: int) -> ExperimentStatus:
        """Add inputs; an ended experiment continues with them.

        Raises:
            NotAllowed: there are not exactly `after` inputs, since somebody else has added some.
        """
        await self.stored(id)
        if not await self.store.add_entries(id, entries, after=after):
            raise NotAllowed(
                f"Somebody else has just added inputs to {id}.", cure="Look, and send them again."
            )
        stored = await self.stored(id)
        if stored.state == "ended":
            await self._go_on(stored)
        else:
            await self._signal(id, "extend", stored.trials)
        return await self.status(id)

    async def delete(self, id: str) -> None:
        """Delete an ended experiment, or one that cannot be read; its runs stay.

        Raises:
            NotAllowed: it is open.
        """
        try:
            stored = await self.stored(id)
        except Unreadable:
            await self.store.delete(id)
            return
        if stored.state != "ended":
            raise NotAllowed(
                f"{id} is {stored.state}.", cure=f"Stop it first: perdure experiment stop {id}"
            )
        await self.store.delete(id)

    async def _require_ready(self, plan: Plan, first: Entry) -> None:
        """Check that every arm can run: its models are known, and its queues have workers."""
        served = await self.starter.served()
        for arm in plan.arms:
            spec = RUN_SPEC.validate_python(trial_task(arm, first, label=plan.name))
            try:
                await self.starter.ready_site(await self.starter.resolved(spec, served))
            except InvalidInput as error:
                raise InvalidInput(f"arms.{arm.name}: {error.message}", cure=error.cure) from None

    async def _go_on(self, stored: StoredExperiment) -> None:
        """Resume its workflow, or start it again where it has ended."""
        # Noted first, because whoever follows it from now on must not take it for ended.
        if stored.state == "ended":
            await self.store.note(stored.id, "running", at=self.now())
        try:
            await self._begin(stored, resumed=True)
        # Cancellation too: without a workflow, nobody would ever note that it has ended.
        except BaseException:
            if stored.state == "ended":
                at = stored.ended_at or self.now()
                await self.store.note(stored.id, "ended", reason=stored.reason, at=at)
            raise

    async def _begin(self, stored: StoredExperiment, *, resumed: bool = False) -> None:
        """Start an execution that continues at the first trial that has not ended.

        One that is open stays; with `resumed` it hears what the new one would have begun with. That
        is one request, because an execution may end at any moment.
        """
        trials = await self.store.trials(stored.id)
        queue = loops_queue(await self.records.installation())
        given = ExperimentInput(
            id=stored.id,
            site=Placement(loops=queue, models="", tools=""),
            per_input=shapes_of(stored.plan),
            trials=stored.trials,
            parallel=stored.plan.parallel,
            budget=stored.plan.budget,
            progress=progress_of(trials),
        )
        with self.server.translate_errors():
            client = await self.server.client()
            await client.start_workflow(
                EXPERIMENT_WORKFLOW,
                given,
                id=stored.id,
                task_queue=queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                static_summary=f"experiment: {stored.plan.name}",
                start_signal="resume" if resumed else None,
                start_signal_args=[_resumption(stored)] if resumed else [],
            )

    async def _handle(self, id: str) -> WorkflowHandle[object, object]:
        client: Client = await self.server.client()
        return client.get_workflow_handle(id)

    async def _signal(self, id: str, name: str, *given: object) -> None:
        # An id that nobody knows must not be told as an experiment that has ended.
        await self.stored(id)
        with self.server.translate_errors():
            try:
                handle = await self._handle(id)
                await self._wait_for_end(id, handle)
                await handle.signal(name, args=list(given))
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
                raise NotAllowed(
                    f"The experiment {id} has ended.",
                    cure=f"Read it with `perdure experiment report {id}`, or go on with "
                    f"`perdure experiment resume {id}`.",
                ) from None

    async def _wait_for_end(self, id: str, handle: WorkflowHandle[object, object]) -> None:
        """Wait a moment while its row says that it has ended, and its execution has not yet.

        An execution notes its end before it ends: what it is sent in between has no effect. One
        that was resumed notes that it goes on.
        """
        for _ in range(LOOKS):
            if (await self.stored(id)).state != "ended":
                return
            if (await handle.describe()).close_time is not None:
                return
            await asyncio.sleep(LOOK_PAUSE_S)

    async def _progress(self, id: str) -> Progress | None:
        """The progress that its workflow reports; None if no worker answers."""
        try:
            with self.server.translate_errors():
                handle = await self._handle(id)
                found = await handle.query("progress", result_type=Progress, rpc_timeout=ASKED)
                described = await handle.describe()
        except PerdureError:
            return None
        if problem := ended_outside(id, described):
            # An execution notes its end before it ends, so the row that was read may be older.
            noted = (await self.stored(id)).state == "ended"
            problem = "" if noted else problem
            return found.model_copy(update={"running": (), "problem": problem})
        return found.model_copy(update={"problem": found.problem or failing_step(described)})

    async def _totals(self, id: str) -> Totals:
        return (await self.store.totals([id]))[id]


async def _ids(store: ExperimentStore) -> list[str]:
    """The ids of all experiments, the newest first."""
    ids: list[str] = []
    after: Place | None = None
    while found := await store.list(limit=KNOWN, after=after):
        ids += [one.id for one in found]
        after = Place(found[-1].created_at, found[-1].id)
    return ids


def _limits(*, cost_usd: Money | None, tokens: int | None) -> ExperimentBudget:
    """The limits as they may be stored: a row that nobody can read would hide the experiment."""
    for name, given, example in (("cost_usd", cost_usd, "5"), ("tokens", tokens, "100000")):
        if given is None:
            continue
        try:
            allowed = bool(ExperimentBudget.model_validate({name: given}).model_dump()[name])
        except ValidationError:
            allowed = False
        if not allowed:
            raise InvalidInput(
                f"{name}: found {format_value(given)}; allowed: an amount above 0, such as "
                f"{example}.",
                cure="Give what all its runs may spend together, with what they have spent.",
            )
    return ExperimentBudget.model_validate({"cost_usd": cost_usd, "tokens": tokens})


def _resumption(stored: StoredExperiment) -> Resumption:
    budget = stored.plan.budget
    return Resumption(cost_usd=budget.cost_usd, tokens=budget.tokens, trials=stored.trials)
