"""A real run: one trace over continue-as-new, attributes from messages, metrics, log fields."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from inline_snapshot import snapshot
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, StatusCode

from perdure.adapters.logging.setup import configure_logging
from perdure.domain.run import metrics
from tests.adapters.telemetry.conftest import RunTiny, Seen
from tests.adapters.telemetry.tiny import FAILS, FAILS_ONCE


def ours(span: ReadableSpan) -> dict[str, object]:
    """The attributes without those of Temporal and without the run's id, which varies."""
    return {
        name: value
        for name, value in sorted((span.attributes or {}).items())
        if not name.startswith("temporal") and name != "gen_ai.conversation.id"
    }


def context(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def ancestors(seen: Seen, span: ReadableSpan) -> list[str]:
    by_id = {context(item).span_id: item for item in seen.spans.get_finished_spans()}
    found: list[str] = []
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        found.append(span.name)
    return found


async def test_a_run_is_one_trace_over_continue_as_new_and_replays(run_tiny: RunTiny) -> None:
    run, seen = await run_tiny("m")
    assert seen.names() == snapshot(
        [
            "RunActivity:call_model",
            "RunActivity:call_tool",
            "RunActivity:check",
            "RunActivity:judge",
            "RunWorkflow:TinyTraced",
            "RunWorkflow:TinyTraced",
            "StartActivity:call_model",
            "StartActivity:call_tool",
            "StartActivity:check",
            "StartActivity:judge",
            "StartWorkflow:TinyTraced",
        ]
    )
    spans = seen.spans.get_finished_spans()
    assert len({context(span).trace_id for span in spans}) == 1
    assert ancestors(seen, seen.span("RunActivity:call_tool")) == [
        "StartActivity:call_tool",
        "RunWorkflow:TinyTraced",
        "RunWorkflow:TinyTraced",
        "StartWorkflow:TinyTraced",
    ]
    steps = [span for span in spans if span.name.startswith("RunActivity")]
    runs = [(span.attributes or {}).get("gen_ai.conversation.id") for span in steps]
    assert runs == [run] * 4


async def test_steps_carry_the_attributes_of_their_messages(run_tiny: RunTiny) -> None:
    _, seen = await run_tiny("m")
    assert ours(seen.span("RunActivity:call_model")) == snapshot(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.max_tokens": 50,
            "gen_ai.request.model": "m",
            "gen_ai.response.finish_reasons": ("end_turn",),
            "gen_ai.response.model": "m-2026",
            "gen_ai.usage.cache_creation.input_tokens": 6,
            "gen_ai.usage.cache_read.input_tokens": 7,
            "gen_ai.usage.input_tokens": 113,
            "gen_ai.usage.output_tokens": 20,
            "perdure.attempt": 1,
            "perdure.attempts": 1,
            "perdure.cost_usd": 0.25,
            "perdure.iteration": 1,
            "perdure.phase": "executing",
            "perdure.replayed": False,
            "perdure.role": "executor",
            "perdure.status": "replied",
            "perdure.step": "call_model",
        }
    )
    assert ours(seen.span("RunActivity:call_tool")) == snapshot(
        {
            "error.type": "denied",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.name": "fs.read",
            "perdure.attempt": 1,
            "perdure.iteration": 2,
            "perdure.status": "denied",
            "perdure.step": "call_tool",
        }
    )


async def test_each_scored_dimension_is_an_evaluation_event(run_tiny: RunTiny) -> None:
    _, seen = await run_tiny("m")
    events = [
        event for step in ("check", "judge") for event in seen.span(f"RunActivity:{step}").events
    ]
    assert {event.name for event in events} == {"gen_ai.evaluation.result"}
    rows = [
        {
            name.removeprefix("gen_ai.evaluation."): value
            for name, value in (event.attributes or {}).items()
            if name.startswith("gen_ai.")
        }
        for event in events
    ]
    assert rows == snapshot(
        [
            {"name": "length", "score.label": "pass", "score.value": 1.0},
            {"name": "clear", "score.label": "fail", "score.value": 0.3},
            {
                "name": "short",
                "score.label": "pass",
                "score.value": 0.8,
                "explanation": ("too long " * 100)[:500],
            },
            {"name": "kind", "score.label": "unscored"},
        ]
    )


async def test_tokens_cost_seconds_and_tools_are_counted(run_tiny: RunTiny) -> None:
    _, seen = await run_tiny("m")
    assert seen.points(metrics.TOKENS.name) == {
        (model, kind): tokens
        for model in ("m", "judge-1")
        for kind, tokens in {
            "input": 100, "output": 20, "cache_read": 7, "cache_creation": 6
        }.items()
    }  # fmt: skip
    assert seen.points(metrics.COST.name) == {("m",): 0.25, ("judge-1",): 0.25}
    assert seen.points(metrics.MODEL_CALL_SECONDS.name) == {
        ("m", "replied", "call_model"): 1,
        ("judge-1", "replied", "judge"): 1,
    }
    assert seen.points(metrics.TOOL_CALLS.name) == {("denied", "fs.read"): 1}


@pytest.mark.parametrize(
    ("model", "ends", "tokens", "cost"),
    [
        (FAILS_ONCE, ["model_overloaded", "replied"], 200, 0.35),
        (FAILS, ["model_overloaded", "model_overloaded"], 200, 0.2),
    ],
    ids=["then a reply", "until given up"],
)
async def test_failed_attempts_are_counted_once(
    run_tiny: RunTiny, model: str, ends: list[str], tokens: int, cost: float
) -> None:
    _, seen = await run_tiny(model)
    calls = [seen.span("RunActivity:call_model", number) for number in (0, 1)]
    attributes = [span.attributes or {} for span in calls]
    assert [a.get("perdure.status") or a.get("error.type") for a in attributes] == ends
    assert calls[0].status.status_code is StatusCode.ERROR
    assert seen.points(metrics.TOKENS.name)[(model, "input")] == tokens
    assert seen.points(metrics.COST.name)[(model,)] == pytest.approx(cost)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    out = io.StringIO()
    configure_logging(stream=out)
    yield out
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


async def test_log_lines_name_run_iteration_and_step_once(
    run_tiny: RunTiny, lines: io.StringIO
) -> None:
    run, _ = await run_tiny("m")
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    (step,) = [entry for entry in logged if entry["event"] == "model_called"]
    known = {name: step.get(name) for name in ("run", "iteration", "step", "attempt")}
    assert known == {"run": run, "iteration": 1, "step": "call_model", "attempt": 1}
    # Every task of this worker is a replay: a line that came twice would be one that replayed.
    started = [entry for entry in logged if entry["event"] == "iteration_started"]
    assert [entry["run"] for entry in started] == [run, run]
