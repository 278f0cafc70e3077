"""A tiny loop with the real step messages, and activities that answer them without any work."""

from datetime import timedelta
from decimal import Decimal

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    import structlog

    from perdure.domain.budget.allowances import Allowance
    from perdure.domain.evaluation.scores import DimensionScore, Finding
    from perdure.domain.foundation.refs import BlobRef
    from perdure.domain.llm.errors import ModelFacts
    from perdure.domain.llm.usage import AttemptTotals, Usage
    from perdure.domain.refine.state import CheckReport, CheckRequest
    from perdure.domain.run.activity_messages import (
        JudgeReport,
        JudgeRequest,
        ModelCallReport,
        ModelCallRequest,
        ModelFailure,
        ToolCallReport,
        ToolCallRequest,
    )
    from perdure.domain.run.metrics import DECISIONS

QUEUE = "tiny"
FAILS_ONCE, FAILS = "fails-once", "fails"
REPLY = AttemptTotals(
    attempts=1,
    usage=Usage(
        input_tokens=100, output_tokens=20, cache_read_tokens=7, cache_write_5m_tokens=5,
        cache_write_1h_tokens=1,
    ),
    cost_usd=Decimal("0.25"),
)  # fmt: skip
FAILED = AttemptTotals(attempts=1, usage=Usage(input_tokens=100), cost_usd=Decimal("0.1"))

log = structlog.get_logger("tiny")


def model_request(model: str, *, iteration: int = 1) -> ModelCallRequest:
    return ModelCallRequest(
        frame="sha256:f", iteration=iteration, model=model, allowance=Allowance(max_tokens=50)
    )


@workflow.defn(name="TinyTraced")
class TinyTraced:
    @workflow.run
    async def run(self, model: str, iteration: int) -> str:
        workflow.logger.info("iteration_started")
        if iteration == 1:
            await self._step("call_model", model_request(model))
            workflow.continue_as_new(args=[model, 2])
        await self._step("check", CheckRequest(frame="sha256:f"))
        call = model_request("judge-1", iteration=iteration)
        await self._step("judge", JudgeRequest(call=call, dimensions=("clear",), pass_score=0.8))
        tool = ToolCallRequest(
            frame="sha256:f", head="h", call_id="c1", name="fs.read", iteration=2, args_hash="a"
        )
        await self._step("call_tool", tool)
        counter = workflow.metric_meter().create_counter(
            DECISIONS.name, DECISIONS.description, DECISIONS.unit
        )
        counter.add(1, {"kind": "tiny", "decision": "accept"})
        return "done"

    async def _step(self, name: str, request: object) -> None:
        try:
            await workflow.execute_activity(
                name,
                request,
                start_to_close_timeout=timedelta(seconds=20),
                retry_policy=RetryPolicy(
                    maximum_attempts=2, initial_interval=timedelta(milliseconds=1)
                ),
            )
        except ActivityError:
            workflow.logger.warning("step_failed")


@activity.defn
async def call_model(step: ModelCallRequest) -> ModelCallReport:
    log.info("model_called")
    attempt = activity.info().attempt
    if step.model == FAILS or (step.model == FAILS_ONCE and attempt == 1):
        account = FAILED if attempt == 1 else FAILED + FAILED
        facts = ModelFacts(kind="overloaded", message="busy")
        raise ApplicationError(
            "busy", ModelFailure(facts=facts, account=account), type="model_overloaded"
        )
    earlier = FAILED if step.model == FAILS_ONCE else AttemptTotals()
    return ModelCallReport(
        status="replied",
        account=earlier + REPLY,
        model=f"{step.model}-2026",
        stop_reason="end_turn",
    )


@activity.defn
async def judge(step: JudgeRequest) -> JudgeReport:
    finding = Finding(id="f1", severity="blocker", dimension="clear", title="no title")
    return JudgeReport(
        call=ModelCallReport(status="replied", account=REPLY, model="judge-1"),
        scores=(
            DimensionScore(name="clear", score=0.9, source="judge", findings=(finding,)),
            DimensionScore(name="short", score=0.8, source="judge", gap="too long " * 100),
            DimensionScore(name="kind", score=None, source="judge"),
        ),
    )


@activity.defn
async def check(step: CheckRequest) -> CheckReport:
    return CheckReport(
        output=BlobRef(hash="sha256:o"),
        dimensions=(DimensionScore(name="length", score=1.0, source="check"),),
    )


@activity.defn
async def call_tool(step: ToolCallRequest) -> ToolCallReport:
    return ToolCallReport(outcome="denied")


ACTIVITIES = [call_model, judge, check, call_tool]
