"""The activity `call_model`: one model call, from prompt entries to a stored reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pydantic import JsonValue
from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.journaled_model import Answered, JournaledModel, NotSent
from perdure.activities.support.prepared_attempt import call_context, estimates, offers_of
from perdure.activities.support.prompt_builder import PromptBuilder
from perdure.activities.support.run_storage import Frames, RecordKeeper
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.plain_text import is_blank
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import (
    UNFINISHED,
    CacheUse,
    ModelRequest,
    PromptRef,
    ToolOffer,
    cache_use,
)
from perdure.domain.llm.shown_attachments import as_shown
from perdure.domain.llm.transcript import Message, ToolUseBlock, TranscriptRef, shows_any
from perdure.domain.ports import BlobStore, RecordStore, TranscriptStore
from perdure.domain.run.activity_messages import (
    Frame,
    ModelCallReport,
    ModelCallRequest,
    PairRequest,
)
from perdure.domain.run.iteration_record import Carrier, whole
from perdure.domain.tools.definitions import READ_ON, arguments_hash
from perdure.domain.turns.compaction import compact, target_tokens
from perdure.domain.turns.output_schema import Given, given_in, in_words
from perdure.domain.turns.prompts import SYSTEM_DIVISOR, closing_messages, shortened
from perdure.domain.turns.tool_call_rules import RequestedCall, canonical_json, normalize_name

# The ways in which a value misses a schema; empty if it conforms.
Misfits = Callable[[Mapping[str, JsonValue], JsonValue], Awaitable[tuple[str, ...]]]


async def shaped(
    text: str, schema: Mapping[str, JsonValue], misfits: Misfits
) -> tuple[str, tuple[str, ...]]:
    """The answer as JSON if it matches the schema; otherwise as it came, with the problems."""
    found = given_in(text, schema)
    if not isinstance(found, Given):
        return text, in_words(found.problems)
    try:
        problems = await misfits(schema, found.value)
    except PerdureError as error:
        problems = (str(error),)
    return (text, in_words(problems)) if problems else (found.text, ())


# Takes a tool's name and the model's arguments; returns the arguments as the tool repairs them.
Mended = Callable[[str, dict[str, JsonValue]], dict[str, JsonValue]]

EXCERPT_CHARACTERS = 120
LABEL_CHARACTERS = 48
# Measured: below this a small model repeats itself word for word, and a loop gains nothing.
SMALL_MODEL_TEMPERATURE = 0.7


class CallModel:
    """Calls a model on a transcript."""

    def __init__(
        self,
        *,
        blobs: BlobStore,
        transcripts: TranscriptStore,
        records: RecordStore,
        metered: JournaledModel,
        frames: Frames,
        composer: PromptBuilder,
        mended: Mended,
        misfits: Misfits,
    ) -> None:
        self._blobs = blobs
        self._transcripts = transcripts
        self._keeper = RecordKeeper(blobs=blobs, records=records)
        self._metered = metered
        self._frames = frames
        self._composer = composer
        self._mended = mended
        self._misfits = misfits

    @activity.defn
    @translated
    async def call_model(self, step: ModelCallRequest) -> ModelCallReport:
        """Append the entries, call the model, append its reply."""
        return await self.turn(step)

    @activity.defn
    @translated
    async def pair_results(self, step: PairRequest) -> TranscriptRef:
        """Append the last tool results to a conversation that ends here."""
        frame = await self._frames.load(step.frame)
        composed = await self._composer.messages(
            step.append, frame=frame, small_model=False, reads=READ_ON in offers_of(frame, None)
        )
        return await self._transcripts.append(step.head, composed)

    async def turn(
        self,
        step: ModelCallRequest,
        *,
        json_schema: dict[str, JsonValue] | None = None,
        system: str | None = None,
        temperature: float | None = None,
    ) -> ModelCallReport:
        """Make the call, also for other activities; `json_schema` asks for structured output."""
        key = call_context(step, run="").key
        # Asked before anything is read: the input itself may be what kills the workers.
        if (lost := await self._metered.give_up_if_lost(key)) is not None:
            return ModelCallReport(status="lost_workers", account=lost)
        frame = await self._frames.load(step.frame)
        # Appending is idempotent: links are named by their content, so a retried attempt finds its
        # own.
        before = await self._append(step, frame=frame)
        await self._write_records(step, frame=frame, before=before)
        messages = await self._transcripts.load(before.hash)
        if step.compact:
            longer = before.hash
            target = _target(step, frame, system)
            # A new chain beside the old one. The old stays, so that the next model or a fork can
            # have it whole.
            reads = READ_ON in offers_of(frame, step.on_offer)
            shorter = compact(messages, target=target, reads=reads)
            before = await self._transcripts.append(None, shorter)
            # From memory alone, which holds the conversations in progress.
            self._transcripts.forget(longer)
            messages = await self._transcripts.load(before.hash)
        request = self._request(
            step, frame=frame, messages=messages, json_schema=json_schema, system=system
        )
        # After compaction: marks for the prompt cache belong to the messages that are sent.
        request = request.model_copy(update={"cache": _cache(step, request, frame)})
        if step.room is not None:
            request = closing_request(request, room=step.room)
        asked = PromptRef(head=before.hash, frame=step.frame, system=system)
        context = request.context.model_copy(update={"prompt": asked})
        request = request.model_copy(update={"context": context})
        if temperature is not None and frame.cards[step.model].sampling is not False:
            request = request.model_copy(update={"temperature": temperature})
        request = request.model_copy(update={"files": await self._files(request.messages)})
        told, most = estimates(step, request, head=before, card=frame.cards[step.model])
        outcome = await self._metered.call(step, request, frame=frame, estimate=most)
        match outcome:
            case NotSent():
                return ModelCallReport(
                    status=outcome.status,
                    account=outcome.account,
                    prompt_estimate=told,
                    prompt_tokens=outcome.prompt_tokens,
                )
            case Answered():
                report = await self._report(step, outcome, frame=frame, before=before, told=told)
                tools = await self._offered(request, frame)
                report = report.model_copy(update={"tools_ref": tools})
                return report if json_schema else await self._held(report, frame)

    async def _write_records(
        self, step: ModelCallRequest, *, frame: Frame, before: TranscriptRef
    ) -> None:
        """Write the records of finished iterations, with the state they can continue from."""
        if not step.records:
            return
        keeper, address = self._keeper, before.hash
        if step.state is not None:
            address = await keeper.state(frame.kind, step.state)
        carrier = Carrier.of(model=step.model, head=step.head, frame=step.frame, append=step.append)
        records = [whole(short, carrier) for short in step.records]
        await keeper.write(frame.run, records, state_ref=address)

    async def _files(self, messages: Sequence[Message]) -> dict[str, bytes]:
        """The content of all that the messages show; it goes to the provider and nowhere else."""
        if not shows_any(messages):
            return {}
        shown = {one.ref for message in messages for one in message.attachments}
        return {address: await self._blobs.get(address) for address in sorted(shown)}

    async def _append(self, step: ModelCallRequest, *, frame: Frame) -> TranscriptRef:
        composed = await self._composer.messages(
            step.append,
            frame=frame,
            small_model=frame.cards[step.model].small,
            reads=READ_ON in offers_of(frame, step.on_offer),
        )
        if composed or step.head is None:
            return await self._transcripts.append(step.head, composed)
        return step.head

    def _request(
        self,
        step: ModelCallRequest,
        *,
        frame: Frame,
        messages: Sequence[Message],
        json_schema: dict[str, JsonValue] | None,
        system: str | None,
    ) -> ModelRequest:
        settings, names = step.settings, offers_of(frame, step.on_offer)
        offers = tuple(
            ToolOffer(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in frame.tools
            if tool.name in names
        )
        return ModelRequest(
            model=step.model,
            system=frame.system if system is None else system,
            messages=as_shown(messages, frame.cards[step.model]),
            max_tokens=step.allowance.max_tokens,
            context=call_context(step, run=frame.run),
            tools=() if json_schema else offers,
            tool_choice="none" if step.tools_off or not offers else "auto",
            json_schema=frame.output_schema if step.shaped and not json_schema else json_schema,
            temperature=_temperature(step, frame),
            thinking=None if step.room is not None or settings is None else settings.thinking,
            effort=None if settings is None else settings.effort,
            cache_life=(settings and settings.cache) or "5m",
        )

    async def _report(
        self,
        step: ModelCallRequest,
        outcome: Answered,
        *,
        frame: Frame,
        before: TranscriptRef,
        told: int,
    ) -> ModelCallReport:
        # Before the reply is stored: what stands in the transcript is exactly what runs and what is
        # hashed for approval.
        message = normalized(outcome.reply.message, frame=frame, mended=self._mended)
        # A provider may call tools although the choice is `none`. Nobody would answer that call.
        if step.tools_off:
            message = without_calls(message)
        head = await self._transcripts.append(before, [message]) if message.blocks else before
        # Stored apart from the transcript: workflows pass on its address, and interfaces read it
        # alone.
        text = message.text
        stored = await self._whole(step, text) if not is_blank(text) else None
        return ModelCallReport(
            status="replied",
            head=head,
            # A reply that is dropped leaves the shorter conversation, with what was appended to it.
            before=before if step.compact else None,
            stop_reason=outcome.reply.stop_reason,
            text=stored,
            excerpt=" ".join(text.split())[:EXCERPT_CHARACTERS],
            calls=tuple(_asked(use, frame=frame) for use in message.tool_uses),
            account=outcome.account,
            model="" if outcome.reply.model == step.model else outcome.reply.model,
            request_id=outcome.reply.request_id,
            prompt_estimate=told,
            prompt_tokens=outcome.prompt_tokens,
            replayed=outcome.replayed,
            cut_call="" if step.tools_off else _known_name(outcome.reply.cut_call, frame=frame),
        )

    async def _held(self, report: ModelCallReport, frame: Frame) -> ModelCallReport:
        """Check a complete answer against the run's output schema."""
        schema, answer = frame.output_schema, report.text
        if schema is None or answer is None or report.calls or report.stop_reason in UNFINISHED:
            return report
        text, misfits = await shaped(await self._blobs.get_text(answer.hash), schema, self._misfits)
        stored = answer if misfits else await self._blobs.put_text(text)
        return report.model_copy(update={"text": stored, "misfits": misfits})

    async def _offered(self, request: ModelRequest, frame: Frame) -> str | None:
        """Store the names of the tools that could be called; None for all or none of them.

        Most calls offer all tools: those stand in the frame, whose address the workflow knows.
        """
        if not request.tools or request.tool_choice == "none":
            return None
        names: list[JsonValue] = [tool.name for tool in request.tools]
        if len(names) == len(frame.tools):
            return None
        return (await self._blobs.put_text(canonical_json(names))).hash

    async def _whole(self, step: ModelCallRequest, text: str) -> BlobRef:
        """Store the whole answer: its earlier part, if it was continued, and this one."""
        before = "" if step.continues is None else await self._blobs.get_text(step.continues)
        return await self._blobs.put_text(f"{before}{step.seam}{text}" if before else text)


def _temperature(step: ModelCallRequest, frame: Frame) -> float | None:
    """The temperature: the role's, else one that suits a small model, else the run's."""
    card = frame.cards[step.model]
    if card.sampling is False:
        return None
    if step.settings is not None and step.settings.temperature is not None:
        return step.settings.temperature
    return SMALL_MODEL_TEMPERATURE if card.small else frame.temperature


def _target(step: ModelCallRequest, frame: Frame, system: str | None) -> int:
    """The number of tokens to compact a conversation to, for this model."""
    told = [frame.system if system is None else system]
    told += [f"{tool.name} {tool.description} {tool.parameters}" for tool in frame.tools]
    return target_tokens(
        window=frame.cards[step.model].window,
        fixed=sum(estimate(text).total for text in told),
        factor=step.allowance.factor,
    )


def _cache(step: ModelCallRequest, request: ModelRequest, frame: Frame) -> CacheUse:
    """Which parts of the prompt to mark for the provider's cache."""
    usual = step.room is None and request.json_schema is None and not step.compact
    return cache_use(
        converses=bool(request.tools) and usual,
        tools_off=request.tool_choice == "none",
        rounds=sum(bool(message.tool_uses) for message in request.messages),
        agent=frame.kind == "agent",
        followed=step.followed if usual else None,
    )


def closing_request(request: ModelRequest, *, room: int) -> ModelRequest:
    """The request cut down to `room` tokens: no tools, and only part of the conversation."""
    system = shortened(request.system, tokens=room // SYSTEM_DIVISOR)
    said = closing_messages(request.messages, room=room - estimate(system).total)
    short = {"system": system, "messages": said, "tools": (), "tool_choice": "none"}
    return request.model_copy(update=short)


def normalized(message: Message, *, frame: Frame, mended: Mended) -> Message:
    """The message with its tool calls as they will run: canonical names, repaired arguments."""
    known = [tool.name for tool in frame.tools]

    def as_run(use: ToolUseBlock) -> ToolUseBlock:
        name = _known_name(use.name, frame=frame)
        mends = name in known and not use.unreadable
        arguments = mended(name, use.arguments) if mends else use.arguments
        return use.model_copy(update={"name": name, "arguments": arguments})

    blocks = tuple(
        as_run(block) if isinstance(block, ToolUseBlock) else block for block in message.blocks
    )
    return message.model_copy(update={"blocks": blocks})


def _known_name(name: str, *, frame: Frame) -> str:
    return normalize_name(name, [tool.name for tool in frame.tools], frame.aliases)


def without_calls(message: Message) -> Message:
    kept = tuple(block for block in message.blocks if not isinstance(block, ToolUseBlock))
    return message.model_copy(update={"blocks": kept})


def _asked(use: ToolUseBlock, *, frame: Frame) -> RequestedCall:
    # Arguments may be megabytes of file content, so the history gets their hash. Only tools that
    # the workflow itself acts on, such as a question, show it their arguments.
    inline = any(tool.name == use.name and tool.inline_arguments for tool in frame.tools)
    # Two calls that could not be read differ, although neither has arguments.
    instead: dict[str, JsonValue] = {"unreadable": use.unreadable} if use.unreadable else {}
    return RequestedCall(
        id=use.id,
        name=use.name,
        args_hash=arguments_hash(use.name, use.arguments or instead),
        label=_label(use),
        arguments=use.arguments if inline else None,
        unreadable=use.unreadable,
    )


def _label(use: ToolUseBlock) -> str:
    values = [str(value) for value in use.arguments.values() if isinstance(value, str | int)]
    return (
        " ".join(" ".join(values[:2]).split())[:LABEL_CHARACTERS]
        or canonical_json(use.arguments)[:LABEL_CHARACTERS]
    )
