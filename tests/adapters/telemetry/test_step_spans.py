"""Attributes from step messages in the cases that a healthy run does not show."""

import pytest

from perdure.adapters.telemetry import conventions as names
from perdure.adapters.telemetry.step_spans import (
    account_attributes,
    evaluation_events,
    report_attributes,
    request_attributes,
)
from perdure.domain.budget.allowances import Allowance
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run.activity_messages import (
    JudgeReport,
    JudgeRequest,
    ModelCallReport,
    ModelCallRequest,
    ToolCallReport,
)

REQUEST = ModelCallRequest(frame="f", iteration=1, model="m-1", allowance=Allowance(max_tokens=9))


def test_an_unknown_cost_is_left_out() -> None:
    assert names.COST_USD not in account_attributes(AttemptTotals(attempts=1, cost_usd=None))


def test_a_call_that_was_not_sent_names_no_reply() -> None:
    attributes = report_attributes(REQUEST, ModelCallReport(status="does_not_fit"))
    assert attributes[names.STATUS] == "does_not_fit"
    assert not {names.RESPONSE_MODEL, names.FINISH_REASONS} & set(attributes)


@pytest.mark.parametrize(
    ("told", "model"), [("", "m-1"), ("m-1-2026", "m-1-2026")], ids=["as asked", "another name"]
)
def test_the_model_that_replied(told: str, model: str) -> None:
    call = ModelCallReport(status="replied", model=told)
    judged = JudgeRequest(call=REQUEST, dimensions=("a",))
    assert report_attributes(REQUEST, call)[names.RESPONSE_MODEL] == model
    assert report_attributes(judged, JudgeReport(call=call))[names.RESPONSE_MODEL] == model


def test_a_reply_that_is_no_judgement_says_why_and_gives_no_score() -> None:
    report = JudgeReport(call=ModelCallReport(status="replied"), problems=("no scores",))
    assert report_attributes(None, report)[names.EVALUATION_PROBLEMS] == ["no scores"]
    assert list(evaluation_events(None, report)) == []


def test_a_carried_score_is_marked() -> None:
    score = DimensionScore(name="a", score=0.5, source="judge", carried=True, stale=True)
    report = JudgeReport(call=ModelCallReport(status="replied"), scores=(score,))
    (event,) = evaluation_events(None, report)
    assert (event[names.EVALUATION_CARRIED], event[names.EVALUATION_STALE]) == (True, True)
    assert event[names.EVALUATION_LABEL] == "fail"


def test_a_tool_that_went_well_is_no_error() -> None:
    assert names.ERROR_TYPE not in report_attributes(None, ToolCallReport())


@pytest.mark.parametrize("message", [None, "text", AttemptTotals()], ids=["none", "text", "other"])
def test_other_messages_say_nothing(message: object) -> None:
    assert request_attributes(message) == {}
    assert report_attributes(message, message) == {}
    assert list(evaluation_events(message, message)) == []
