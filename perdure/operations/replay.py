"""Replays recorded histories against this code, and compares commands and their content.

Temporal's replayer matches commands only by kind, type and id. A changed prompt, state or
explanation would pass it. So every request, every continued state and the result are compared too.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from google.protobuf.json_format import Error as MalformedMessage
from pydantic import BaseModel, JsonValue, ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityHandle

from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.foundation.names import is_loops_queue
from perdure.domain.ports import BlobStore
from perdure.gateway.server_connection import pause_at_exit
from perdure.interfaces.services import Replayed
from perdure.workflows.registry import TASK_STARTS, WORKFLOWS, workflow_runner

CONTINUED, RESULT = "the continued state", "the result"
SHOWN_CHARACTERS = 120

# Whether two scalar values at a path count as equal.
Same = Callable[[JsonValue, JsonValue, str], bool]


@dataclass(frozen=True, slots=True)
class Said:
    """A value that workflow code passed to the SDK: its purpose, its model, and its JSON then."""

    what: str
    model: type[object]
    data: bytes


class Witness(Interceptor):
    """Interceptor of a replayer; `said` has the values of the newest replay, in order."""

    def __init__(self, converter: DataConverter) -> None:
        self.said: list[Said] = []
        self._converter = converter

    def hear(self, what: str, value: object) -> Said:
        """Copy a value at once, because workflow code goes on to change its state."""
        payload = self._converter.payload_converter.to_payload(value)
        heard = Said(what, type(value), payload.data)
        self.said.append(heard)
        return heard

    def take_back(self, heard: Sequence[Said]) -> None:
        """Forget values that did not leave the workflow; other ones may be equal to them."""
        self.said[:] = [one for one in self.said if all(one is not gone for gone in heard)]

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        witness = self

        class Outbound(WorkflowOutboundInterceptor):
            def start_activity(self, input: StartActivityInput) -> ActivityHandle[object]:
                heard = [witness.hear(input.activity, arg) for arg in input.args]
                handle = super().start_activity(input)
                begun = workflow.info().get_current_history_length()

                def ended(_: object) -> None:
                    # A step that is cancelled in the task that begins it is never sent. No other
                    # one can end in that task.
                    if workflow.info().get_current_history_length() == begun:
                        witness.take_back(heard)

                handle.add_done_callback(ended)
                return handle

            def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
                for arg in input.args:
                    witness.hear(CONTINUED, arg)
                super().continue_as_new(input)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

            async def execute_workflow(self, input: ExecuteWorkflowInput) -> object:
                result = await super().execute_workflow(input)
                witness.hear(RESULT, result)
                return result

        return Inbound


async def difference(
    history: WorkflowHistory, said: Sequence[Said], converter: DataConverter
) -> str | None:
    """The first difference, or None; values beyond the end of the history are not compared."""
    recorded = _recorded(history)
    if len(said) < len(recorded):
        return f"{len(recorded)} words were recorded, this code says {len(said)}"
    same = _same_but_for_clocks if _worker_was_lost(history) else _same
    counts: dict[str, int] = {}
    for (what, payload), now in zip(recorded, said, strict=False):
        counts[what] = counts.get(what, 0) + 1
        place = f"{what} (number {counts[what]})"
        if what != now.what:
            return f"{place} was recorded, this code comes to {now.what} instead"
        (then,) = await converter.decode([payload])
        was, is_now = _as_read_now(then, now.model, converter), json.loads(now.data)
        found = _difference(was, is_now, same=same)
        if found is not None:
            return f"{place}: {found}"
    return None


def _recorded(history: WorkflowHistory) -> list[tuple[str, Payload]]:
    found: list[tuple[str, Payload]] = []
    for event in history.events:
        scheduled = event.activity_task_scheduled_event_attributes
        rolled = event.workflow_execution_continued_as_new_event_attributes
        completed = event.workflow_execution_completed_event_attributes
        found += [(scheduled.activity_type.name, one) for one in scheduled.input.payloads]
        found += [(CONTINUED, one) for one in rolled.input.payloads]
        found += [(RESULT, one) for one in completed.result.payloads]
    return found


def _as_read_now(then: JsonValue, model: type[object], converter: DataConverter) -> JsonValue:
    """A recorded value as this code reads it, with defaults for newer fields."""
    if not issubclass(model, BaseModel):
        return then
    try:
        read = model.model_validate_json(json.dumps(then))
    except ValidationError:
        return then
    return json.loads(converter.payload_converter.to_payload(read).data)


def _worker_was_lost(history: WorkflowHistory) -> bool:
    lost = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
    return any(event.event_type == lost for event in history.events)


def _same(then: JsonValue, now: JsonValue, path: str) -> bool:
    return then == now


def _same_but_for_clocks(then: JsonValue, now: JsonValue, path: str) -> bool:
    """Whether values are equal, or both are times or both are durations.

    After a worker is lost, its successor may get a query before the waiting workflow task. It then
    applies the newest events with the time of the previous task. So it makes the same decisions,
    but with times some seconds earlier than any replay.
    """
    if then == now:
        return True
    match then, now:
        case str(), str():
            return _is_instant(then) and _is_instant(now)
        case int() | float(), int() | float():
            return path.endswith("_s")
        case _:
            return False


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _difference(
    then: JsonValue, now: JsonValue, *, same: Same, path: str = "", grown: bool = False
) -> str | None:
    """Where two values differ; with `grown`, keys that the recording lacks are ignored."""
    match then, now:
        case dict(), dict():
            names = then if grown else then | now
            pairs = [(name, then.get(name), now.get(name)) for name in names]
        case list(), list() if len(then) == len(now):
            pairs = [(str(n), old, new) for n, (old, new) in enumerate(zip(then, now, strict=True))]
        case str(), str() if then.startswith("{") and now.startswith("{"):
            return _between_texts(then, now, same, path)
        case _ if same(then, now, path):
            return None
        case _:
            return f"{path or 'it'} was {_shown(then)}, now {_shown(now)}"
    found = (
        _difference(old, new, same=same, path=f"{path}.{name}".lstrip("."), grown=grown)
        for name, old, new in pairs
    )
    return next((one for one in found if one is not None), None)


def _between_texts(then: str, now: str, same: Same, path: str) -> str | None:
    """Compare values inside JSON texts, which include defaults and so get keys of newer fields."""
    try:
        return _difference(json.loads(then), json.loads(now), same=same, path=path, grown=True)
    except ValueError:
        return None if then == now else f"{path} was {_shown(then)}, now {_shown(now)}"


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


PROBLEM_CHARACTERS = 500
_MESSAGE = re.compile(r'\bmessage: "((?:[^"\\]|\\.)+)"')


async def replay(
    histories: Mapping[str, bytes],
    blobs: BlobStore | None,
    *,
    keys: Sequence[bytes] = (),
    plain: bool = False,
    codec: PayloadCodec | None = None,
    interceptors: Sequence[Interceptor] = (),
) -> AsyncIterator[Replayed]:
    """Replay each history (JSON by name); a problem says where this code differs from it.

    Args:
        histories: histories that the Temporal client has exported.
        blobs: the store of their large payloads.
        keys: decrypt their payloads.
        plain: whether workers read unencrypted values although there is a key.
        codec: decodes their payloads, if there are no keys.
        interceptors: further interceptors of the replay.

    Raises:
        InvalidInput: one of them is no exported history; nothing was replayed.
    """
    read = {name: _history(name, content) for name, content in histories.items()}
    converter = _converter(blobs, keys, plain=plain, codec=codec)
    witness = Witness(converter)
    for name, history in read.items():
        witness.said.clear()
        replayer = _replayer(history, converter, [witness, *interceptors])
        # A history that differs must not hide the others.
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        failure = result.replay_failure
        problem = (
            str(failure)
            if failure is not None
            else await difference(history, witness.said, converter)
        )
        yield Replayed(
            source=name,
            events=len(history.events),
            problem=None if problem is None else problem[:PROBLEM_CHARACTERS],
        )


async def why_not_replayed(
    run: str,
    content: bytes,
    *,
    blobs: BlobStore,
    keys: Sequence[bytes] = (),
    plain: bool = False,
    codec: PayloadCodec | None = None,
) -> str | None:
    """Why a history does not replay to its end; None if it does, or is of foreign code.

    Differences in content do not matter here: a worker can go on in spite of them.
    """
    try:
        history = _history(run, content)
    except InvalidInput:
        return None
    replayer = _replayer(history, _converter(blobs, keys, plain=plain, codec=codec), [])
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return None if failure is None else _innermost(str(failure))[:PROBLEM_CHARACTERS]


def _innermost(failure: str) -> str:
    """The innermost message of a failure, which the SDK's core prints as debug text."""
    told = _MESSAGE.findall(failure)
    return told[-1] if told else failure


def _converter(
    blobs: BlobStore | None, keys: Sequence[bytes], *, plain: bool, codec: PayloadCodec | None
) -> DataConverter:
    # Not bound to a workflow: a replay has a namespace of its own, and files may have any name.
    return data_converter(blobs, keys, tolerant=True, plain=plain, placed=False, codec=codec)


def _replayer(
    history: WorkflowHistory, converter: DataConverter, interceptors: Sequence[Interceptor]
) -> Replayer:
    # A loop and the workflow that opens its task have the same type; the queue tells them apart.
    queue = history.events[0].workflow_execution_started_event_attributes.task_queue.name
    pause_at_exit()
    return Replayer(
        workflows=list(WORKFLOWS if is_loops_queue(queue) else TASK_STARTS),
        workflow_runner=workflow_runner(),
        data_converter=converter,
        interceptors=list(interceptors),
        # As at workers: otherwise an error that ended a run would look like code that fails now.
        workflow_failure_exception_types=[PerdureError],
        # Without the SDK's limit of two seconds for a task: a busy machine is no other decision.
        debug_mode=True,
    )


def _history(name: str, content: bytes) -> WorkflowHistory:
    """Read an exported history, or say what is wrong with it."""
    try:
        history = WorkflowHistory.from_json(name, content.decode())
    except (ValueError, MalformedMessage) as error:
        why = str(error).partition("\n")[0][:200]
        raise _no_history(name, why) from error
    if not history.events:
        raise _no_history(name, "it holds no events")
    begun = history.events[0].workflow_execution_started_event_attributes
    started = begun.workflow_type.name
    known = sorted(workflow.__name__ for workflow in WORKFLOWS)
    if started not in known:
        raise _no_history(name, f"it is of {started or 'no workflow'}, not of {' or '.join(known)}")
    if len(history.events) == 1:
        # The SDK would wait for its first task for ever, and hear no cancellation.
        raise _no_history(name, "it ends at its start, so there is nothing to replay")
    # Replay under the original id: a run that a Temporal client started reads its own id.
    return replace(history, workflow_id=begun.workflow_id or name)


def _no_history(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is not the history of a run: {why}.",
        cure="Export one with `temporal workflow show -w RUN --output json`.",
    )
