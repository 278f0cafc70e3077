"""The bookkeeping activities: `reconcile`, `keep_terms`, `finish`, `snapshot`, `notify`."""

import json
from datetime import datetime

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Stopwatch
from perdure.activities.support.run_storage import RecordKeeper, inline_output
from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.tolerance import read, read_as
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.memory.entries import Sort
from perdure.domain.memory.rule_lessons import EndedRun, event_of, learning
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore, Notifier, RecordStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LEARNING
from perdure.domain.run.amend_spec import edited
from perdure.domain.run.bookkeeping_messages import (
    FinishReport,
    FinishRequest,
    KeepTermsRequest,
    NotifyReport,
    NotifyRequest,
    ReconcileRequest,
    SnapshotReport,
    SnapshotRequest,
)
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.specs import RUN_SPEC
from perdure.domain.tools.workspaces import Workspaces

CONFIDENCE = 0.5
SORTS: dict[str, Sort] = {"fact": "fact", "heuristic": "heuristic", "anti_pattern": "anti_pattern"}


class NoteKeeper:
    """Turns the notes of a run that has ended into learnings.

    Until then a note is an artifact, because nobody knows whether the run will be accepted.
    """

    def __init__(self, *, artifacts: ArtifactStore, blobs: BlobStore, memory: MemoryStore) -> None:
        self._artifacts = artifacts
        self._blobs = blobs
        self._memory = memory

    async def keep(self, run: EndedRun) -> None:
        """Store every note in memory; a repeat finds what it wrote."""
        for note in await self._artifacts.artifacts_of_run(run.id):
            if note.kind != LEARNING:
                continue
            try:
                text = await self._blobs.get_text(note.ref)
            except NotFound:
                continue  # a lost note must not hold up the end of the run
            sort = SORTS.get(note.name, "fact")
            await self._memory.put(
                learning(run, f"note:{note.id}", sort=sort, text=text, confidence=CONFIDENCE)
            )


class Reconcile:
    """Finds out what an activity spent that ended without a report."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @activity.defn
    @translated
    async def reconcile(self, step: ReconcileRequest) -> AttemptTotals:
        """Mark the activity's open attempts as lost, and add up all of them."""
        execution = activity.info().workflow_run_id
        # The key that `call_context` gives the attempts of that activity.
        return await self._journal.reconcile(f"{execution}/{step.activity_id}")


class KeepTerms:
    """Stores what people changed of an open run, from which a retry or a fork begins."""

    def __init__(self, *, records: RecordStore, blobs: BlobStore) -> None:
        self._records = records
        self._blobs = blobs

    @activity.defn
    @translated
    async def keep_terms(self, step: KeepTermsRequest) -> None:
        """Write the limits into the stored status, and the edits into the specification."""
        row = await self._records.run(step.run)
        # A late attempt must not change what the end has written.
        if row is None or row.ended_at is not None:
            return
        if row.status is not None:
            status = read(RunStatus, row.status)
            budget = status.budget.model_copy(update={"limits": step.limits})
            kept = status.model_copy(update={"budget": budget})
            await self._records.edit_status(step.run, kept.model_dump_json())
        if (step.edits or step.spec) and row.spec is not None:
            stored = await self._blobs.get(row.spec) if step.spec is None else json.dumps(step.spec)
            spec = read_as(RUN_SPEC, stored)
            for edit in step.edits:
                spec = edited(spec, edit)
            address = await self._blobs.put(spec.model_dump_json(by_alias=True).encode())
            await self._records.edit_run(
                step.run, goal=spec.goal, label=spec.metadata.label, spec=address
            )


class Finish:
    """Stores the end of a run, so that it can be read without server or worker."""

    def __init__(
        self,
        *,
        records: RecordStore,
        blobs: BlobStore,
        memory: MemoryStore,
        artifacts: ArtifactStore,
    ) -> None:
        self._records = records
        self._blobs = blobs
        self._keeper = RecordKeeper(blobs=blobs, records=records)
        self._memory = memory
        self._notes = NoteKeeper(artifacts=artifacts, blobs=blobs, memory=memory)

    @activity.defn
    @translated
    async def finish(self, step: FinishRequest) -> FinishReport:
        """Write the last records and the result; a repeat writes the same."""
        stored = await self._records.run(step.run)
        kind = "" if stored is None else stored.kind
        state = None if step.state is None else await self._keeper.state(kind, step.state)
        await self._keeper.write(step.run, step.records, state_ref=state)
        output, excerpt = await inline_output(self._blobs, step.output, step.inline)
        # There is no row: the run was deleted, or no gateway started it. Its end must not bring it
        # back.
        if stored is None:
            return FinishReport(stored=False, output=output, excerpt=excerpt)
        if step.remembered:
            ended = ended_run(step, stored)
            # Here and not in the learning run: mining counts runs that nobody learned from, too.
            await self._memory.put(event_of(ended))
            await self._notes.keep(ended)
        # Last, because interfaces believe the row: once it is there, everything before is stored.
        await self._records.put_run(
            stored.model_copy(
                update={
                    "lifecycle": step.lifecycle,
                    "outcome": step.outcome,
                    # Not the clock: a repeat must write the same.
                    "ended_at": datetime.fromisoformat(step.ended_at),
                    "result": step.result,
                    "status": step.status,
                    "state": state,
                }
            )
        )
        return FinishReport(stored=True, output=output, excerpt=excerpt)


def ended_run(step: FinishRequest, stored: StoredRun) -> EndedRun:
    """The facts about a run that memory keeps."""
    result = read(RunResult, step.result)
    return EndedRun(
        id=step.run,
        kind=stored.kind,
        goal=stored.goal,
        category=step.category,
        outcome=result.outcome,
        reason=result.reason,
        started_at=stored.started_at,
        ended_at=datetime.fromisoformat(step.ended_at),
    )


class Snapshot:
    """Stores the working folder of a run; runs where the folder is."""

    def __init__(self, *, workspaces: Workspaces, blobs: BlobStore) -> None:
        self._workspaces = workspaces
        self._blobs = blobs

    @activity.defn
    @translated
    async def snapshot(self, step: SnapshotRequest) -> SnapshotReport:
        """Store the tree and, if a base is given, the patch from it."""
        watch = Stopwatch()
        stored = await self._workspaces.snapshot(run=step.run, root=step.root)
        patch = None
        if step.patch_from is not None:
            best = step.patch_to or stored.tree.hash
            text = await self._workspaces.patch(base=step.patch_from, tree=best)
            patch = await self._blobs.put_text(text) if text else None
        return SnapshotReport(
            tree=stored.tree, patch=patch, seconds=watch.seconds, left_out=stored.left_out
        )


class Notify:
    """Tells people, through the installation's channel, that a gate waits."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    @activity.defn
    @translated
    async def notify(self, step: NotifyRequest) -> NotifyReport:
        """Deliver one notice."""
        event = json.loads(step.model_dump_json())
        return NotifyReport(delivered=await self._notifier.notify(event))
