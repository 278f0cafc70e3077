"""`Collection`: garbage collection on a schedule, by whatever worker is there."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from perdure.activities.collection import Collect
from perdure.domain.foundation.names import COLLECTION_WORKFLOW
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
