"""The activities `open_run` and `reframe`: write a run's frame and first messages, or amend it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.run_storage import Frames
from perdure.domain.budget.accounting import STAND_IN_CURE, priceless_stand_in
from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.errors import AlreadyBegun, InvalidInput, NotFound, Unreadable
from perdure.domain.foundation.tokens import estimate
from perdure.domain.installation.model_rates import QueuesOf, no_queues
from perdure.domain.llm.attachments import (
    Attachment,
    Measure,
    amount_problem,
    attachment_in,
    not_measured,
    read_attachment,
)
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.shown_attachments import sight_problem
from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    TranscriptRef,
    closed,
    resumable,
    user_message,
    with_attachments,
)
from perdure.domain.ports import BlobStore, Models, RecordStore, TranscriptStore
from perdure.domain.refine.prompts import executor_system
from perdure.domain.refine.state import ReframeReport, ReframeRequest
from perdure.domain.run.activity_messages import (
    Frame,
    OpenRunReport,
    OpenRunRequest,
    StageContext,
    StageSetup,
)
from perdure.domain.run.status import StoredRun
from perdure.domain.sight import blind_roles
from perdure.domain.tools.definitions import ToolDefinition
from perdure.domain.turns.failover import SKIPPED_AFTER_FAILURE_S
from perdure.domain.turns.guidance import LOST_TEXT, is_added
from perdure.domain.turns.output_schema import schema_prompt
from perdure.domain.turns.prompts import SYSTEM_PROMPT, input_address, input_text, task_text
from perdure.domain.turns.repeated_tool_calls import ToolCounters, recounted

GIVE_TEXT = "Give text, or an image or PDF as a file."


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """Fixes what stays the same during a run: models with prices, tools, prompt, inputs."""

    blobs: BlobStore
    transcripts: TranscriptStore
    models: Models
    journal: Journal
    records: RecordStore
    notifies: bool = False
    measure: Measure = not_measured
    queues: QueuesOf = no_queues

    @activity.defn
    @translated
    async def open_run(self, step: OpenRunRequest) -> OpenRunReport:
        """Write the frame blob and, for runs that converse, the opening transcript."""
        await self._require_new(step)
        cards = {name: await self._card(name, step) for name in _names(step.chains)}
        attachments = await self._attachments(step)
        _require_sight(tuple(attachments.values()), step, cards)
        inputs = await self._inputs(step, attachments)
        frame = Frame(
            run=step.run,
            root=step.root or step.run,
            kind=step.kind,
            goal=step.goal,
            inputs=inputs,
            system=_with_schema(step, step.system or self._system(step, cards)),
            tools=step.tools,
            grant=step.grant,
            cards=cards,
            chains=step.chains,
            aliases=_aliases(step.tools),
            extra=step.extra,
            temperature=step.commission.temperature if step.commission else None,
            output_schema=step.output_schema,
            attachments=tuple(attachments.values()),
        )
        # A blob named by its hash: a retried attempt writes the same frame under the same name.
        address = await self._put(frame)
        # Before the first call, so that listings and `gc` know every child that spends.
        await self._register(step)
        head, tallies = await self._conversation(step, frame)
        return OpenRunReport(
            frame=address,
            head=head,
            tallies=tallies,
            cards=cards,
            system_tokens=_fixed_tokens(frame),
            task_tokens=task_tokens(frame),
            failing=await self._failing(step),
            seats={name: await self._seat(frame, order) for name, order in step.seats.items()},
            notifies=self.notifies,
            task_media=sum(one.tokens.media for one in frame.attachments),
            queues=self.queues(tuple(cards)),
            blind=blind_roles(frame.attachments, step.chains, cards),
        )

    async def _require_new(self, step: OpenRunRequest) -> None:
        """Refuse to begin a run over the records of one that ended or spent something.

        Whatever can copy the input of an execution can start the workflow again under the same id.

        Raises:
            AlreadyBegun: something came of this run before.
        """
        # An execution that was reset may repeat this step as the older one asked for it.
        if not step.begins or step.begins != activity.info().workflow_run_id:
            return
        row = await self.records.run(step.run)
        ended = row is not None and row.ended_at is not None
        if ended or (step.is_fresh and await self.journal.has_spent(step.run)):
            raise AlreadyBegun(
                f"The run {step.run} {'has ended' if ended else 'has begun'} already, and its "
                "records would be replaced.",
                cure=f"`perdure retry {step.run}` goes on with a run that failed, `perdure fork "
                f"{step.run} --from-iteration N` with another. Begin anew under another id.",
            )

    async def _put(self, frame: Frame) -> str:
        return await self.blobs.put(frame.model_dump_json().encode())

    async def _seat(self, run: Frame, order: StageSetup) -> StageContext:
        """The frame of a stage: the run's, with the stage's own prompt, tools and grant."""
        tools = tuple(tool for tool in run.tools if tool.name in order.grant.allowed)
        own = {
            "system": order.system,
            "grant": order.grant,
            "extra": order.extra,
            "tools": tools,
            "aliases": _aliases(tools),
        }
        frame = run.model_copy(update=own)
        return StageContext(
            frame=await self._put(frame),
            system_tokens=_fixed_tokens(frame),
            task_tokens=task_tokens(frame),
        )

    async def _register(self, step: OpenRunRequest) -> None:
        """Write the row of a child run; the gateway wrote those of all others."""
        given = step.commission
        # A repeat of this step must not take back what the row says by now.
        if given is None or given.parent is None or await self.records.run(step.run) is not None:
            return
        await self.records.put_run(
            StoredRun(
                id=step.run,
                kind=step.kind,
                goal=step.goal,
                label=given.label,
                lifecycle="running",
                outcome=None,
                started_at=step.now,
                parent=given.parent,
                namespace=activity.info().namespace,
            )
        )

    async def _failing(self, step: OpenRunRequest) -> tuple[str, ...]:
        since = step.now - timedelta(seconds=SKIPPED_AFTER_FAILURE_S)
        names = _names(step.chains)
        failing = await self.journal.failing_models(names, since=since)
        return tuple(name for name in names if name in failing)

    @staticmethod
    def _system(step: OpenRunRequest, cards: dict[str, ModelProfile]) -> str:
        if step.converses:
            return SYSTEM_PROMPT
        return executor_system(small_model=cards[step.chains["executor"][0]].small)

    async def _card(self, name: str, step: OpenRunRequest) -> ModelProfile:
        card = await self.models.resolve(name).card(name)
        if card.price is None and step.assume_price is not None:
            # Pinned with the frame: a price list that changes meanwhile must not change a running
            # budget.
            stand_in = await self.models.resolve(step.assume_price).card(step.assume_price)
            if stand_in.price is None:
                raise InvalidInput(priceless_stand_in(step.assume_price), cure=STAND_IN_CURE)
            card = card.model_copy(update={"price": stand_in.price})
        return card.cached_for(step.cache_life)

    async def _attachments(self, step: OpenRunRequest) -> dict[str, Attachment]:
        """The images and PDFs of the task, by input; what a client says about them is not trusted.

        Raises:
            InvalidInput: the content is no image or PDF that a model can be shown.
        """
        given = {name: attachment_in(value) for name, value in step.context.items()}
        found: dict[str, Attachment] = {}
        for name, said in given.items():
            if said is None:
                continue
            data = await self.blobs.get(said.ref)
            one = await asyncio.to_thread(
                read_attachment, data, name=said.name, ref=said.ref, measure=self.measure
            )
            if isinstance(one, str):
                raise InvalidInput(f"context.{name}: {said.name or 'the file'}: {one}.")
            found[name] = one
        if why := amount_problem(tuple(found.values())):
            raise InvalidInput(f"context: {why}.")
        return found

    async def _inputs(
        self, step: OpenRunRequest, attachments: Mapping[str, Attachment]
    ) -> dict[str, str]:
        inputs: dict[str, str] = {}
        for name, value in step.context.items():
            if name in attachments:
                inputs[name] = attachments[name].words
                continue
            address = input_address(value)
            if address is None:
                inputs[name] = input_text(value)
                continue
            # No message to a run at work may fail it, nor the loop below it that is told of it.
            added = is_added(name) and step.commission is not None and step.commission.parent
            inputs[name] = await self._read(name, address, added=bool(added))
        return inputs

    async def _read(self, name: str, address: str, *, added: bool) -> str:
        try:
            return await self.blobs.get_text(address)
        except (InvalidInput, NotFound) as error:
            if added:
                return LOST_TEXT
            if isinstance(error, NotFound):
                raise
            raise InvalidInput(f"context.{name}: {error.message}", cure=GIVE_TEXT) from error

    async def _conversation(
        self, step: OpenRunRequest, frame: Frame
    ) -> tuple[TranscriptRef | None, ToolCounters | None]:
        """The transcript that the first call continues."""
        if step.resume is not None:
            return await self._resumed(step.resume, goes_on=step.goes_on)
        if not step.converses:
            return None, None
        return await self._opening(step, frame), None

    async def _resumed(
        self, head: TranscriptRef, *, goes_on: bool
    ) -> tuple[TranscriptRef, ToolCounters]:
        """The transcript to continue: open tool calls closed, and the model's turn to speak."""
        said = await self.transcripts.load(head.hash)
        if goes_on:
            return head, recounted(said)
        ready = resumable(said)
        # Appending keeps the chain, and with it the provider's prompt cache.
        if ready[: len(said)] == said:
            head = await self.transcripts.append(head, ready[len(said) :])
        else:
            head = await self.transcripts.append(None, ready)
        return head, recounted(ready)

    async def _given(self, head: str) -> tuple[Message, ...]:
        try:
            return await self.transcripts.load(head)
        except Unreadable as error:
            # The task named it, so this is no damage that a retry would wait for.
            raise InvalidInput(f"agent.transcript: {error.message}", cure=error.cure) from error

    async def _opening(self, step: OpenRunRequest, frame: Frame) -> TranscriptRef:
        head: TranscriptRef | None = None
        if step.transcript is not None:
            given_before = await self._given(step.transcript)
            head = await self.transcripts.append(None, closed(given_before))
        given = [
            Message(role=message.role, blocks=(TextBlock(type="text", text=message.text),))
            for message in step.messages
        ]
        briefing = step.commission.briefing if step.commission else None
        told = step.goal if briefing is None else await self.blobs.get_text(briefing)
        task = user_message(task_text(told, frame.inputs), pinned=True)
        shown = with_attachments(task, frame.attachments)
        return await self.transcripts.append(head, [*given, shown])


def _require_sight(
    attachments: Sequence[Attachment], step: OpenRunRequest, cards: Mapping[str, ModelProfile]
) -> None:
    """Refuse images and PDFs that no model of the run can be shown.

    Only the worker knows the models for certain, so the interface may have let them pass.

    Raises:
        InvalidInput: no model of the run can be shown them.
    """
    problems = [sight_problem(attachments, [name], cards) for name in _names(step.chains)]
    if problems and all(problems):
        raise InvalidInput(f"context: {problems[0]}.")


def _with_schema(step: OpenRunRequest, system: str) -> str:
    if step.output_schema is None:
        return system
    return f"{system}\n\n{schema_prompt(step.output_schema)}".strip()


def _aliases(tools: Iterable[ToolDefinition]) -> dict[str, str]:
    return {alias: tool.name for tool in tools for alias in tool.aliases}


def _names(chains: dict[str, tuple[str, ...]]) -> list[str]:
    return sorted({name for chain in chains.values() for name in chain})


def _fixed_tokens(frame: Frame) -> int:
    texts = [frame.system]
    texts += [f"{tool.name} {tool.description} {tool.parameters}" for tool in frame.tools]
    return sum(estimate(text).total for text in texts)


def task_tokens(frame: Frame) -> int:
    """The tokens that the task adds to a prompt: goal, inputs, rubric."""
    texts = [frame.goal, *frame.inputs.values(), str(frame.extra)]
    return sum(estimate(text).total for text in texts)


class Reframe:
    """Changes goal or rubric in a frame; tools, models and inputs stay as they are."""

    def __init__(self, *, blobs: BlobStore, frames: Frames) -> None:
        self._blobs = blobs
        self._frames = frames

    @activity.defn
    @translated
    async def reframe(self, step: ReframeRequest) -> ReframeReport:
        """Store the new frame; the old one stays, since earlier steps refer to it."""
        old = await self._frames.load(step.frame)
        changed = {"extra": step.extra, "goal": step.goal}
        given = {name: value for name, value in changed.items() if value is not None}
        frame = old.model_copy(update=given)
        address = await self._blobs.put(frame.model_dump_json().encode())
        return ReframeReport(frame=address, task_tokens=task_tokens(frame))
