"""Replays recorded histories against this code."""

import json
from collections.abc import AsyncIterator, Mapping

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from perdure.adapters.converting import data_converter
from perdure.domain.errors import PerdureError
from perdure.domain.ports import BlobStore
from perdure.interfaces.services import Replayed
from perdure.worker import WORKFLOWS, workflow_runner

PROBLEM_CHARACTERS = 500


async def replay(
    histories: Mapping[str, bytes], blobs: BlobStore | None
) -> AsyncIterator[Replayed]:
    """Replay each history (JSON by name); a problem says where this code departs from it."""
    replayer = Replayer(
        workflows=list(WORKFLOWS),
        workflow_runner=workflow_runner(),
        data_converter=data_converter(blobs),
        workflow_failure_exception_types=[PerdureError],
    )
    for name, content in histories.items():
        events = len(json.loads(content)["events"])
        history = WorkflowHistory.from_json(name, content.decode())
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        failure = result.replay_failure
        problem = None if failure is None else str(failure)[:PROBLEM_CHARACTERS]
        yield Replayed(source=name, events=events, problem=problem)
