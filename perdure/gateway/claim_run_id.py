"""Maps ids and idempotency keys to runs; the run's row in the store decides.

The server forgets a run when it deletes the history. A client that repeats its request must still
find the run, and not pay for it twice. A start may be repeated under the same id only if it
certainly had no effect.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, PerdureError
from perdure.domain.foundation.names import (
    LONGEST_ID,
    RESERVED_IDS,
    is_loops_queue,
    is_usable_id,
    loops_queue,
)
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.ports import RecordStore
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere
from perdure.gateway.temporal_gateway import TemporalGateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A request to start a run, with an id, an idempotency key, or neither."""

    run: str | None
    key: str | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimState:
    """What is known of a request already.

    `done` is the run that the request started, open or ended. Otherwise, `row` is the row of a
    start without effect, which the next start takes over.
    """

    done: str | None = None
    row: StoredRun | None = None


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Finds the run of a request, or claims its row; of concurrent claims only one succeeds."""

    server: TemporalGateway
    records: RecordStore
    journal: Journal
    now: Callable[[], datetime]

    async def standing(self, asked: Wish) -> ClaimState:
        """What is known of a request; raises `NotAllowed` if another one has its id or key."""
        row = None if asked.key is None else await self.records.run_of_key(asked.key)
        if row is not None:
            require_same(row.id, row.digest, asked, what="The idempotency key was used for the")
        run = row.id if row is not None else asked.run
        if run is None:
            return ClaimState()
        row = row or await self.records.run(run)
        look = await self.server.look(run)
        if look is not None:
            if row is None:
                await self._require_ours(look)
                if not look.open:  # the server deletes a moment after it was told to
                    await self.require_unused(run)
            return ClaimState(done=same(look, asked.digest))
        if row is None:
            return ClaimState()
        if await self._was_there(row):
            require_same(row.id, row.digest, asked, what="The id belongs to the")
            return ClaimState(done=row.id)
        # A start that is under way, or was killed: only the same request may take its row over.
        if row.ended_at is None:
            require_same(row.id, row.digest, asked, what="The id belongs to the")
        return ClaimState(row=row)

    async def has_begun(self, run: str) -> bool:
        """Whether a run of this installation has begun, from whatever specification."""
        row = await self.records.run(run)
        if row is None:
            return False
        return await self.server.look(run) is not None or await self._was_there(row)

    async def _was_there(self, row: StoredRun) -> bool:
        """Whether a run began that the server does not know, or no longer."""
        return await elsewhere(self.server, row) is not None or await self.had_effect(row)

    async def _require_ours(self, look: ExecutionInfo) -> None:
        """Raise `NotAllowed` for a run of another installation in the same namespace.

        A run without a row of its own may still be ours, if the store has lost it.
        """
        if is_loops_queue(look.queue) and look.queue != loops_queue(
            await self.records.installation()
        ):
            raise NotAllowed(
                f"The id {look.id} belongs to a run of another installation in this namespace.",
                cure="Use another id. To steer that run, use its installation's store.",
            )

    async def require_unused(self, run: str) -> None:
        """Raise `NotAllowed` for the id of a run that is gone but for what the books have of it.

        A run of the same id would be refused by its own first step, and be charged what the former
        one spent.
        """
        # The books first: a run that another start has just begun has a row before it spends.
        if await self.journal.is_used(run) and await self.records.run(run) is None:
            raise NotAllowed(
                f"The id {run} was used: that run is gone, and the journal keeps what it spent.",
                cure="Use another id or idempotency key.",
            )

    async def claim(self, row: StoredRun, *, seen: StoredRun | None) -> bool:
        """Write the row of a start; False if another start was first."""
        return await self.records.claim_run(row, seen=seen)

    async def close(self, row: StoredRun, error: PerdureError) -> None:
        """Close the row of a failed start, if the server certainly has no such run.

        If another start took the row over meanwhile, the row stays open.
        """
        try:
            absent = await self.server.look(row.id) is None
        except PerdureError:
            return  # not certain, so the row stays open
        # The start was taken, and only its answer was lost.
        if not absent:
            return
        status = read_stored(RunStatus, row.status or "", what=f"the status of {row.id}")
        told = status.model_copy(update={"dispatch": f"not started: {error.message}"})
        ended = {
            "lifecycle": "failed",
            "outcome": "failed",
            "ended_at": self.now(),
            "status": told.model_dump_json(),
            # Release the key, so that the next request with it is a new start.
            "start_key": None,
        }
        await self.records.claim_run(row.model_copy(update=ended), seen=row)

    async def had_effect(self, row: StoredRun) -> bool:
        """Whether a run had an effect: it has a result, a model call or an iteration."""
        if row.result is not None or await self.journal.has_spent(row.id):
            return True
        records = await self.records.records(row.id)
        if not records:
            return False
        last = read_stored(IterationRecord, records[-1], what=f"the last record of {row.id}")
        return last.index > _inherited(row)


def _inherited(row: StoredRun) -> int:
    """The last iteration that a fork has from the run before it; 0 for any other run."""
    if not row.status:
        return 0
    origin = read_stored(RunStatus, row.status, what=f"the status of {row.id}").forked_from
    return 0 if origin is None else origin.iteration


def key_digest(key: str) -> str:
    """The digest under which an idempotency key is kept."""
    return hashlib.sha256(key.encode()).hexdigest()


def same(known: ExecutionInfo, digest: str) -> str:
    """The id of an execution; raises `NotAllowed` if it has another specification."""
    if known.memo.get("spec") == digest:
        return known.id
    raise _other(f"The run {known.id} exists already, from another specification.")


def require_same(run: str, digest: str | None, asked: Wish, *, what: str) -> None:
    """Raise `NotAllowed` unless the run was started from the requested specification."""
    if digest != asked.digest:
        raise _other(f"{what} run {run}, which was started from another specification.")


def _other(message: str) -> NotAllowed:
    return NotAllowed(
        message, cure="Use another id or idempotency key, or send the same specification."
    )


def checked_id(run: str) -> str:
    """A run id that a caller chose, if it is valid.

    Raises:
        InvalidInput: it is too long or reserved, or has characters that are not allowed.
    """
    if not is_usable_id(run):
        raise InvalidInput(
            f"The run id {run[:200]!r} is not usable.",
            cure=f"Use up to {LONGEST_ID} letters, digits and any of - _ . : @ + =, with a letter "
            "or digit, and neither - nor @ as the first.",
        )
    require_unreserved(run)
    return run


def require_unreserved(name: str) -> None:
    """Raise `InvalidInput` for a word that URLs or commands use in the place of an id."""
    if name in RESERVED_IDS:
        raise InvalidInput(
            f"{name!r} cannot be a name here: it has another meaning in addresses or commands.",
            cure="Choose another.",
        )
