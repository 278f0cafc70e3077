"""Makes attributes and evaluation events of a span from the request and report of its step.

They contain no prompts, replies or tool arguments. The explanation of an evaluation is its gap,
shortened.
"""

from collections.abc import Iterator
from typing import TypeAlias

from opentelemetry.util.types import AttributeValue

from perdure.adapters.telemetry import conventions as names
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.refine.state import CheckReport
from perdure.domain.run.activity_messages import (
    JudgeReport,
    JudgeRequest,
    ModelCallReport,
    ModelCallRequest,
    ToolCallReport,
    ToolCallRequest,
)

Attributes: TypeAlias = dict[str, AttributeValue]

EXPLANATION_CHARACTERS = 500
FULL_SCORE = 1.0
PASS, FAIL, UNSCORED = "pass", "fail", "unscored"


def request_attributes(request: object) -> Attributes:
    """The attributes that are known before the step runs."""
    match request:
        case ModelCallRequest():
            return {
                names.OPERATION: names.CHAT,
                names.REQUEST_MODEL: request.model,
                names.REQUEST_MAX_TOKENS: request.allowance.max_tokens,
                names.ROLE: request.role,
                names.PHASE: request.phase,
            }
        case JudgeRequest():
            return request_attributes(request.call)
        case ToolCallRequest():
            return {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: request.name,
                names.TOOL_CALL_ID: request.call_id,
            }
        case _:
            return {}


def report_attributes(request: object, report: object) -> Attributes:
    """The attributes of a report; if a reply names no model, it is the requested one."""
    match report:
        case ModelCallReport():
            asked = request.model if isinstance(request, ModelCallRequest) else ""
            return _reply_attributes(report, asked) | account_attributes(report.account)
        case JudgeReport():
            problems: Attributes = (
                {names.EVALUATION_PROBLEMS: list(report.problems)} if report.problems else {}
            )
            call = request.call if isinstance(request, JudgeRequest) else None
            return report_attributes(call, report.call) | problems
        case ToolCallReport():
            # A failed tool call is a result of the step, so the span is no error.
            failed: Attributes = (
                {} if report.outcome == "ok" else {names.ERROR_TYPE: report.outcome}
            )
            return {names.STATUS: report.outcome} | failed
        case _:
            return {}


def account_attributes(account: AttemptTotals) -> Attributes:
    """Usage and cost of all attempts of a call; an unknown cost is left out, never 0."""
    usage = account.usage
    attributes: Attributes = {
        names.INPUT_TOKENS: usage.prompt_tokens,  # the conventions include cached tokens
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_CREATION_TOKENS: usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        names.ATTEMPTS: account.attempts,
    }
    if account.total_cost_usd is not None:
        attributes[names.COST_USD] = float(account.total_cost_usd)
    return attributes


def evaluation_events(request: object, report: object) -> Iterator[Attributes]:
    """One set of attributes for each dimension that a check or a judge scored."""
    match report:
        case CheckReport():
            yield from (_evaluation(score, passing=FULL_SCORE) for score in report.dimensions)
        case JudgeReport():
            passing = request.pass_score if isinstance(request, JudgeRequest) else FULL_SCORE
            yield from (_evaluation(score, passing=passing) for score in report.scores)
        case _:
            return


def _reply_attributes(report: ModelCallReport, asked: str) -> Attributes:
    attributes: Attributes = {names.STATUS: report.status, names.REPLAYED: report.replayed}
    model = report.model or asked
    if report.status == "replied" and model:
        attributes[names.RESPONSE_MODEL] = model
    if report.stop_reason:
        attributes[names.FINISH_REASONS] = [report.stop_reason]
    return attributes


def _evaluation(dimension: DimensionScore, *, passing: float) -> Attributes:
    score = dimension.capped
    attributes: Attributes = {
        names.EVALUATION_NAME: dimension.name,
        names.EVALUATION_LABEL: _label(score, passing=passing),
        names.EVALUATION_SOURCE: dimension.source,
        names.EVALUATION_FINDINGS: len(dimension.findings),
        names.EVALUATION_CARRIED: dimension.carried,
        names.EVALUATION_STALE: dimension.stale,
    }
    if score is not None:
        attributes[names.EVALUATION_SCORE] = score
    if dimension.gap:
        attributes[names.EVALUATION_EXPLANATION] = dimension.gap[:EXPLANATION_CHARACTERS]
    return attributes


def _label(score: float | None, *, passing: float) -> str:
    if score is None:
        return UNSCORED
    return PASS if score >= passing else FAIL
