"""Control verbs: sent to one run as an update, or to many found by a visibility query."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from perdure.domain.evaluation.rubric import Rubric, RubricProblems
from perdure.domain.foundation.errors import (
    InvalidInput,
    NoReadyWorker,
    NotAllowed,
    NotFound,
    PerdureError,
)
from perdure.domain.foundation.names import OPEN_EXECUTION, LoopKind, loops_queue
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.audit import VerbAudit
from perdure.domain.run.child_runs import is_below
from perdure.domain.run.messages import (
    VERB_OF,
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Receipt,
    Retry,
    is_too_long,
)
from perdure.gateway.ask_many import AskMany, Present
from perdure.gateway.error_mapping import unknown_run
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere, other_namespace_error
from perdure.gateway.server_pauses import PAUSED_THERE
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import BulkReport, Reach
from perdure.gateway.visibility import OURS, delay_note, executions_of, quoted, unopened

if TYPE_CHECKING:
    from perdure.gateway.retry import Retrying

AT_ONCE = 8
ENDED_MEANWHILE = "the run has ended meanwhile"
STALE_NOTE = "Runs started in the last seconds may be missing; ask again to be sure."


def _asked_below(run: str, message: Answer) -> tuple[str, Answer] | None:
    """The child run that an answer names together with its gate (`RUN:g1`)."""
    # From the right, since run ids may have colons and names of gates have none.
    asked, separator, gate = message.gate.strip().rpartition(":")
    if not separator or (asked != run and not is_below(asked, run)):
        return None
    return asked, message.model_copy(update={"gate": gate})


def _topmost(looks: Sequence[ExecutionInfo]) -> list[ExecutionInfo]:
    """Those that no run above them leads; a workflow of somebody else, or an experiment, does not.

    Runs below another run follow it.
    """
    known = {look.id for look in looks}
    return [look for look in looks if look.parent not in known]


class VerbSender:
    """Sends control verbs, and says in plain words why one was refused."""

    def __init__(
        self,
        *,
        server: TemporalGateway,
        blobs: BlobStore,
        records: RecordStore,
        retrying: "Callable[[], Retrying]",
        rubric_problems: RubricProblems,
        task_queue: str,
        now: Callable[[], datetime],
        present: Present,
        nudge: Callable[[str], None],
        audit: VerbAudit | None = None,
    ) -> None:
        self._server = server
        self._retrying = retrying
        self._rubric_problems = rubric_problems
        self._task_queue = task_queue
        self._now = now
        self._present = present
        self._nudge = nudge
        self._audit = audit
        self._blobs = blobs
        self._records = records

    async def verb(self, run: str, message: AnyMessage) -> Receipt:
        """Send a verb to a run and audit request and answer; see `Gateway.verb`."""
        if self._audit is None:
            return await self._verb(run, message)
        # Written before sending: afterwards, a crash in between would leave a verb unrecorded.
        entry = await self._audit.note_message(run, message)
        try:
            receipt = await self._verb(run, message)
        # Only refusals are certain. One who was silent may still take it, so its entry stays open.
        except (InvalidInput, NotAllowed, NotFound) as error:
            await self._audit.note_answer(entry, refused=error.message)
            raise
        await self._audit.note_answer(entry)
        return receipt

    async def _verb(self, run: str, message: AnyMessage) -> Receipt:
        if isinstance(message, Amend) and message.rubric is not None:
            self._require_usable(message.rubric)
        named = run
        if isinstance(message, Answer) and (below := _asked_below(run, message)):
            run, message = below
        sent = await self._shortened(message)
        try:
            if isinstance(sent, Retry):
                receipt = await self._retrying().retry(run, sent)
            else:
                receipt = await self._server.update(run, VERB_OF[type(message)], sent)
        except NotFound:
            raise await self._why_not(run) from None
        except NoReadyWorker as silent:
            raise await self._why_silent(run, silent) from None
        # An answer to a run below changes what followers of both see.
        for each in {named, run}:
            self._nudge(each)
        return receipt

    async def verb_all(
        self,
        message: AnyMessage,
        *,
        kind: LoopKind | None,
        root: str | None,
        within: Reach | None = None,
    ) -> BulkReport:
        """Send a verb to every open run of a kind or of a tree; see `Gateway.verb_all`."""
        from perdure.gateway.unlisted_runs import Unlisted  # a verb to one run does without

        queue = loops_queue(await self._records.installation())
        own = f"{OURS} AND TaskQueue = {quoted(queue)}"
        query = f"{OPEN_EXECUTION} AND (({own}) OR {unopened(self._task_queue)})"
        if root is not None:
            query += f" AND RootWorkflowId = {quoted(root)}"
        unlisted = Unlisted(server=self._server, records=self._records, now=self._now)
        # Before the list: a run that the index gets in between is then in both, and not in neither.
        early = {look.id: look for look in await unlisted.looks(root=root) if look.open}
        listed = {look.id: look async for look in executions_of(self._server, query)}
        looks = list((early | listed).values())
        if within is not None:
            # Before the topmost are chosen: one may reach a run, and not the run above it.
            looks = [look for look in looks if await within(look.id)]
        if root is None:
            looks = _topmost(looks)
        found = [look.id for look in looks if kind in {None, look.kind}]
        # Each update waits for a workflow task of its run; hundreds at once would only queue up at
        # the workers.
        many = AskMany(queue, at_once=AT_ONCE, present=self._present)
        answers = await asyncio.gather(*(self._one(run, message, many) for run in found))
        refused = {run: why for run, why in zip(found, answers, strict=True) if why is not None}
        return BulkReport(
            verb=VERB_OF[type(message)],
            taken=tuple(run for run in found if run not in refused),
            refused=refused,
            note=STALE_NOTE,
        )

    async def _one(self, run: str, message: AnyMessage, many: AskMany) -> str | None:
        """Send a verb to one run of a list; None, or why it was not taken."""
        try:
            return await many.ask(lambda: self._if_open(run, message))
        except NoReadyWorker as silent:
            # A busy worker may take a message, a stop above all, after the wait for its answer.
            look = await self._server.look(run)
            return silent.message if look is None or look.open else ENDED_MEANWHILE
        except PerdureError as error:
            return error.message

    async def _if_open(self, run: str, message: AnyMessage) -> str | None:
        """The list may be seconds old, so look at the run first."""
        look = await self._server.look(run)
        if look is None or not look.open:
            return ENDED_MEANWHILE
        if (later := delay_note(look, self._now())) is not None:
            # A message would end the delay.
            return f"{later}; a message to it alone begins it now"
        await self.verb(run, message)
        return None

    def _require_usable(self, given: list[JsonValue]) -> None:
        """Refuse unusable patterns and schemas here, because a workflow cannot compile them."""
        try:
            rubric = Rubric.model_validate(given)
        except ValidationError:
            return  # the run itself refuses it and says why
        if problems := self._rubric_problems(rubric):
            raise InvalidInput(
                "; ".join(str(problem).rstrip(".") for problem in problems) + ".",
                cure="The run goes on as before; correct the rubric and amend it again.",
            )

    async def _shortened(self, message: AnyMessage) -> AnyMessage:
        match message:
            case AddInput() if message.text and is_too_long(message.text):
                ref = await self._blobs.put_text(message.text)
                return message.model_copy(update={"text": "", "ref": ref})
            case Answer(text=text) | Amend(guidance=text) | Escalate(note=text) | Retry(note=text):
                if is_too_long(text):
                    raise InvalidInput(
                        f"The text has {len((text or '').encode())} bytes; 8192 are allowed here.",
                        cure="Send it with `perdure add`, which stores it, and refer to it.",
                    )
                return message
            case _:
                return message

    async def _why_silent(self, run: str, silent: NoReadyWorker) -> PerdureError:
        """Why nobody answers: the run is paused at the server, or no worker is there."""
        look = await self._server.look(run)
        if look is None or look.trouble is None or not look.trouble.found.startswith(PAUSED_THERE):
            return silent
        return NoReadyWorker(
            f"The run {run} did not answer: it is {look.trouble.found}", cure=look.trouble.cure
        )

    async def _why_not(self, run: str) -> PerdureError:
        """Why there is no open run with this id: it ended, or never existed."""
        look: ExecutionInfo | None = await self._server.look(run)
        row = await self._records.run(run)
        if look is None and row is None:
            return unknown_run(run)
        if look is None and row is not None and (away := await elsewhere(self._server, row)):
            return other_namespace_error(run, away)
        outcome = (row.outcome if row else None) or (look.text("PerdureOutcome") if look else None)
        how = f" ({outcome})" if outcome else ""
        return NotAllowed(
            f"The run {run} has ended{how} and takes no more of these.",
            cure=f"`perdure result {run}` shows how it ended.",
        )
