"""Replays recorded histories against this code: the same commands, and the same words in them."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence

from google.protobuf.json_format import Error as MalformedMessage
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Interceptor, Replayer

from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.ports import BlobStore
from perdure.interfaces.services import Replayed
from perdure.operations.replay_comparison import Witness, difference
from perdure.workflow_registry import WORKFLOWS, workflow_runner

PROBLEM_CHARACTERS = 500
_MESSAGE = re.compile(r'\bmessage: "((?:[^"\\]|\\.)+)"')


async def replay(
    histories: Mapping[str, bytes],
    blobs: BlobStore | None,
    *,
    keys: Sequence[bytes] = (),
    plain: bool = False,
    interceptors: Sequence[Interceptor] = (),
) -> AsyncIterator[Replayed]:
    """Replay each history (JSON by name); a problem says where this code departs from it.

    Args:
        histories: exported by the Temporal client.
        blobs: where their large payloads are.
        keys: open what is sealed in them.
        plain: whether the workers read what nobody sealed although there is a key.
        interceptors: hear the replay beside our own.

    Raises:
        InvalidInput: something given is no exported history; nothing was replayed.
    """
    read = {name: _history(name, content) for name, content in histories.items()}
    converter = _converter(blobs, keys, plain=plain)
    witness = Witness(converter)
    replayer = _replayer(converter, [witness, *interceptors])
    for name, history in read.items():
        witness.said.clear()
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


async def why_not(
    run: str, content: bytes, *, blobs: BlobStore, keys: Sequence[bytes] = (), plain: bool = False
) -> str | None:
    """Why a history does not replay up to its end; None where it does, or is of foreign code.

    Other words in it than this code would write are no reason: a worker goes on with them.
    """
    try:
        history = _history(run, content)
    except InvalidInput:
        return None
    replayer = _replayer(_converter(blobs, keys, plain=plain), [])
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = result.replay_failure
    return None if failure is None else _innermost(str(failure))[:PROBLEM_CHARACTERS]


def _innermost(failure: str) -> str:
    """What happened at the bottom of a failure, which the SDK's core tells as a debug text."""
    told = _MESSAGE.findall(failure)
    return told[-1] if told else failure


def _converter(blobs: BlobStore | None, keys: Sequence[bytes], *, plain: bool) -> DataConverter:
    # A replay has a namespace of its own, and its histories may come from files of any name.
    return data_converter(blobs, keys, tolerant=True, plain=plain, placed=False)


def _replayer(converter: DataConverter, interceptors: Sequence[Interceptor]) -> Replayer:
    return Replayer(
        workflows=list(WORKFLOWS),
        workflow_runner=workflow_runner(),
        data_converter=converter,
        interceptors=list(interceptors),
        workflow_failure_exception_types=[PerdureError],
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
    started = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
    known = sorted(workflow.__name__ for workflow in WORKFLOWS)
    if started not in known:
        raise _no_history(name, f"it is of {started or 'no workflow'}, not of {' or '.join(known)}")
    return history


def _no_history(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is not the history of a run: {why}.",
        cure="Export one with `temporal workflow show -w RUN --output json`.",
    )
