"""Stored specifications and states of runs, from which forks and retries continue."""

import json
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from perdure.domain.agent.result import agent_budget
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentState, agent_state
from perdure.domain.budget.accounting import Budget
from perdure.domain.delegation.state import DelegationState
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, StoreError
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.foundation.tolerance import read, read_as, read_stored
from perdure.domain.llm.transcript import Link, TranscriptRef
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.refine.resume import completed
from perdure.domain.refine.state import RefineState
from perdure.domain.roles.resume import completed as with_its_records
from perdure.domain.roles.state import RoleState
from perdure.domain.run.resume import StoredState, with_records
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import StoredRun
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import resolve
from perdure.gateway.error_mapping import unknown_run

S = TypeVar("S", bound=LoopState)


class StoredStates:
    """Reads stored specifications and states."""

    def __init__(self, *, blobs: BlobStore, records: RecordStore) -> None:
        self._blobs = blobs
        self._records = records

    async def row(self, run: str) -> StoredRun:
        """The row of a run; raises `NotFound`."""
        found = await self._records.run(run)
        if found is None:
            raise unknown_run(run)
        return found

    async def spec(self, row: StoredRun) -> Spec:
        """The specification of a run; raises `NotAllowed` if the store does not have it."""
        if row.spec is None:
            raise NotAllowed(
                f"The store does not have the specification of {row.id}: "
                "an older version started it, or no interface of Perdure did.",
                cure="Run its task again.",
            )
        return read_as(RUN_SPEC, await self._blobs.get(row.spec))

    async def records(self, run: str) -> list[IterationRecord]:
        texts = await self._records.records(run)
        return [
            read_stored(IterationRecord, text, what=f"iteration {number} of {run}")
            for number, text in enumerate(texts, start=1)
        ]

    async def after(
        self, row: StoredRun, iteration: int
    ) -> tuple[LoopState, tuple[IterationRecord, ...]]:
        """The state after an iteration, and the records up to it.

        Raises:
            InvalidInput: there is no such iteration; the message lists those that exist.
            NotAllowed: the iteration has no stored state.
        """
        records = await self.records(row.id)
        upto = tuple(record for record in records if record.index <= iteration)
        wanted = next((record for record in upto if record.index == iteration), None)
        if wanted is None:
            raise InvalidInput(f"{row.id} has no iteration {iteration}.", cure=_which(records))
        if wanted.state_ref is None:
            usable = [record for record in records if record.state_ref]
            raise NotAllowed(
                f"Nothing can start from iteration {iteration} of {row.id}: "
                "no state was kept of it.",
                cure=_which(usable) if usable else "An older version made this run; run it again.",
            )
        state = await self._state(row, wanted.state_ref, iteration)
        return _with(state, upto), upto

    async def newest(self, row: StoredRun) -> tuple[LoopState | None, tuple[IterationRecord, ...]]:
        """The state in which a run ended, or the state after its newest iteration that has one.

        In a store that was restored from a backup, a state may name missing blobs. Then the newest
        complete state is used.
        """
        records = tuple(await self.records(row.id))
        # The row of a retried run keeps the state of its former end until it ends again.
        if row.ended_at is not None and row.state is not None and await self._is_whole(row.state):
            state = await self._state(row, row.state, len(records))
            return _with(state, records), records
        for record in reversed(records):
            if record.state_ref is not None and await self._is_whole(record.state_ref):
                return await self.after(row, record.index)
        return None, ()

    async def _is_whole(self, address: str) -> bool:
        try:
            named = addresses_in(await self._blobs.get(address))
        except NotFound:
            return False
        return all([await self._blobs.exists(name) for name in named])

    async def _state(self, row: StoredRun, address: str, iteration: int) -> LoopState:
        """Decode a stored state; after an agent's turn, it may be just the link of its transcript.

        The link says nothing of the budget: that is the one of the specification.
        """
        data = await self._blobs.get(address)
        try:
            found = _read(row.kind, address, data)
            if not isinstance(found, TranscriptRef):
                return found
            spec = await self.spec(row)
            limited = isinstance(spec, AgentSpec)
            budget = (
                agent_budget(spec, resolve(spec.agent)) if limited else Budget(limits=spec.budget)
            )
            return agent_state(found, iteration=iteration, at=row.started_at, budget=budget)
        except ValidationError as error:
            raise StoreError(
                f"The blob {address} is not a state that this version of Perdure can read.",
                cure="Use the version that wrote it.",
            ) from error


def _state(model: type[S], data: bytes) -> S:
    return read(model, json.dumps(read(StoredState, data).state))


def _read(kind: str, address: str, data: bytes) -> LoopState | TranscriptRef:
    if kind == "refine":
        return _state(RefineState, data)
    if kind == "delegation":
        return _state(DelegationState, data)
    if kind == "roles":
        return _state(RoleState, data)
    try:
        return _state(AgentState, data)
    except ValidationError:
        link = read(Link, data)
        return TranscriptRef(hash=address, messages=link.messages_total, tokens=link.tokens_total)


def _with(state: LoopState, records: Sequence[IterationRecord]) -> LoopState:
    if isinstance(state, RefineState):
        return completed(state, records)
    if isinstance(state, RoleState):
        return with_its_records(state, records)
    return with_records(state, records)


def _which(records: Sequence[IterationRecord]) -> str:
    if not records:
        return "It has none yet."
    return f"It has: {', '.join(str(record.index) for record in records)}."
