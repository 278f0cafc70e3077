"""Workflows that a schedule starts: dropping what is kept no longer, and looking for habits."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from perdure.activities.collection import Collect
from perdure.activities.memory import Mine
from perdure.domain.foundation.names import COLLECTION_WORKFLOW, MINING_WORKFLOW
from perdure.domain.memory.patterns import MineReport, MineRequest, MiningInput
from perdure.domain.retention.messages import CollectionInput, CollectReport, CollectRequest
from perdure.workflows.engine.activity_options import NEVER_RETRIED
from perdure.workflows.engine.input import Given


@workflow.defn(name=COLLECTION_WORKFLOW)
class Collection(Given):
    """One scheduled collection."""

    @workflow.init
    def __init__(self, given: CollectionInput) -> None:
        del given  # `Given` has checked it, and `run` gets it

    @workflow.run
    async def run(self, given: CollectionInput) -> CollectReport:
        """Collect once; the schedule says when the next one is."""
        report = await workflow.execute_activity_method(
            Collect.collect,
            CollectRequest(),
            task_queue=given.queue,
            start_to_close_timeout=timedelta(seconds=given.longest_s),
            heartbeat_timeout=timedelta(seconds=given.heartbeat_s),
            # No limit on attempts: a worker that dies in the middle loses nothing, and the schedule
            # skips a collection while one is still running.
            retry_policy=RetryPolicy(non_retryable_error_types=NEVER_RETRIED),
            summary="drop what is kept no longer",
        )
        left = f"; {report.left} runs could not be dropped" if report.left else ""
        workflow.set_current_details(f"{report.runs} runs, {report.blobs} blobs dropped{left}")
        return report


@workflow.defn(name=MINING_WORKFLOW)
class PatternMining(Given):
    """One scheduled look. It proposes patterns; only a person approves them."""

    @workflow.init
    def __init__(self, given: MiningInput) -> None:
        del given  # `Given` has checked it, and `run` gets it

    @workflow.run
    async def run(self, given: MiningInput) -> MineReport:
        """Mine once; the schedule says when the next look is."""
        report = await workflow.execute_activity_method(
            Mine.mine,
            MineRequest(now=workflow.now()),
            task_queue=given.queue,
            start_to_close_timeout=timedelta(seconds=given.timeout_s),
            # No limit on attempts: the store may be away for hours, and the schedule skips a look
            # while one is still running.
            retry_policy=RetryPolicy(non_retryable_error_types=NEVER_RETRIED),
            summary="look for patterns",
        )
        workflow.set_current_details(
            f"{report.events} events, {report.found} patterns, {report.proposed} new proposals"
        )
        return report
