"""`PatternMining`: looks, on a schedule, for tasks and tool sequences that recur in many runs."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from perdure.activities.memory import Mine
from perdure.domain.foundation.names import MINING_WORKFLOW
from perdure.domain.memory.patterns import MineReport, MineRequest, MiningInput
from perdure.workflows.engine.activity_options import NEVER_RETRIED
from perdure.workflows.engine.input import Given


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
