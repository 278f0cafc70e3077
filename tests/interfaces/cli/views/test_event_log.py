"""What several events say together."""

from typing import Any, get_args

import pytest
from inline_snapshot import snapshot

from perdure.domain.run.events import Event, EventType
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.replies import menu_of
from perdure.interfaces.cli.views.events import Story
from tests.interfaces.cli.samples import event, gate, status


def told(run: RunStatus, *events: Event) -> list[str]:
    story = Story(run)
    lines = (story.line(item) for item in events)
    return [line.plain for line in lines if line is not None]


def test_a_refinement_tells_its_scores_with_what_is_missing() -> None:
    lines = told(
        status(),
        event(1, "run_started", kind="refine"),
        event(2, "model_replied", tokens=450, text="draft"),
        event(3, "evaluated", kind="full", scores={"short": 1.0, "tone": 0.6, "words": 0.5}),
        event(4, "iteration_completed", score=0.73, counted=["9 of 12 tests pass"]),
        event(5, "evaluated", kind="incremental", scores={"short": 1.0, "tone": 1.0}),
        event(6, "iteration_completed", iteration=2, score=1.0),
        event(7, "iteration_completed", iteration=3, error="the model gave nothing"),
        event(8, "ended", outcome="accepted"),
    )
    assert lines == snapshot(
        [
            "[start] Write a product text for a steel water bottle.",
            "[iter 1/6] score 0.73 · 9 of 12 tests pass · missing tone; words",
            "[iter 2/6] score 1.00 (eval: incremental)",
            "[iter 3/6] the model gave nothing",
        ]
    )


def test_a_conversation_tells_its_turns_and_tools() -> None:
    lines = told(
        status(kind="agent", iteration_limit=50),
        event(1, "model_replied", tokens=1_200, text="let me\nlook", stop_reason="tool_use"),
        event(2, "tool_finished", tool="fs.list", outcome="ok"),
        event(2, "tool_finished", tool="fs.list", label="src", outcome="ok", result="a.py", ms=5),
        event(2, "tool_finished", tool="fs.read", label="b", outcome="error", result="no file b"),
        event(3, "tool_refused", tool="fs.write", why="not on offer"),
        event(4, "iteration_completed", decision="continue"),
        event(5, "model_failed_over", failed="a", to="b", why="overloaded"),
        event(6, "gate_opened", gate="g1", kind="tool_approval", prompt="May I?"),
        event(7, "model_replied", tokens=1),
        event(8, "tool_created", tool="text.count", worker="w1", cached=False, repaired=True),
    )
    assert lines == snapshot(
        [
            "[turn 1/50] 1,200 tokens · let me look",
            "[tool] fs.list · ok",
            "[tool] fs.list src → a.py",
            "[tool] fs.read b → no file b · error",
            "[tool] fs.write · not on offer",
            "[model] a · b · overloaded",
            "[tool approval g1] May I?  → perdure answer refine-steel-bottle-7f3a:g1 CHOICE"
            "  (approve, deny)",
            "[turn 1/50] 1 token",
            "[tool] made text.count for w1 (repaired)",
        ]
    )


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        (
            event(1, "recalled", text="2 similar tasks, 1 anti-pattern"),
            "[recall] 2 similar tasks, 1 anti-pattern",
        ),
        (event(1, "recalled"), "[recall] nothing similar is known yet"),
        (
            event(1, "recalled", failed="store: away"),
            "[recall] failed, the work goes on: store: away",
        ),
        (event(2, "planned", steps=["look", "write"]), "[plan] look → write"),
        (
            event(2, "planned", steps=["a", "b", "c", "d", "e"]),
            "[plan] a → b → c → and 2 more",
        ),
        (
            event(2, "planned", skipped="read_only", read_only=True, why="it asks"),
            "[plan] a question, one answer: it asks",
        ),
        (event(2, "planned", failed="no JSON"), "[plan] none, the work goes on: no JSON"),
        (event(2, "planned", skipped="small_model"), None),
        (event(2, "stage_started", stage="plan", role="plan"), None),
        (
            event(3, "stage_finished", stage="plan", role="plan", status="completed", text="1. Do"),
            "[plan] completed · 1. Do",
        ),
        (
            event(3, "stage_finished", stage="code", status="failed", text="refusal"),
            "[code] failed · refusal",
        ),
        (
            event(3, "stage_finished", stage="code", status="completed", text='{"a": 1}'),
            "[code] completed",
        ),
        (
            event(4, "verdict", verdict="rejected", by="review", open=2, text="No test."),
            "[verdict] rejected · 2 open · No test.",
        ),
        (event(4, "verdict", verdict="approved", by="review"), "[verdict] approved"),
        (
            event(3, "iteration_completed", score=0.73, missing=["IP-based limiting"]),
            "[iter 1/6] score 0.73 · missing IP-based limiting",
        ),
        (
            event(3, "iteration_completed", score=0.73, missing=["Missing IP limits", "tone"]),
            "[iter 1/6] score 0.73 · Missing IP limits; tone",
        ),
        (
            event(3, "iteration_completed", score=0.89, evaluation="incremental", saved=0.4),
            "[iter 1/6] score 0.89 (eval: incremental, 40 % tokens saved)",
        ),
        (
            event(3, "iteration_completed", score=0.5, evaluation="full", saved=0.004),
            "[iter 1/6] score 0.50",
        ),
        (event(4, "skill_saved", name="tree-list"), "[skill] tree-list"),
    ],
    ids=[
        "recalled", "nothing known", "no memory", "a plan", "a long plan", "a question",
        "no plan", "no plan wanted", "a stage begins", "a stage", "a failed stage", "a structure",
        "a rejection", "an approval", "missing", "said to be missing already", "saved",
        "hardly saved", "a skill",
    ],
)  # fmt: skip
def test_lines(happened: Event, told: str | None) -> None:
    line = Story(status()).line(happened)
    assert (None if line is None else line.plain) == told


FORGED = "x\n[done] accepted\u2028[done] accepted"
WRITTEN = """
adaptation by cure decision dimension error executor explanation failed gate guidance hook how kind
label model name outcome prompt reason result role stage status stop_reason strategy text to tool
verdict why worker
"""
LISTS = ("choices", "counted", "dimensions", "ended", "missing", "servers", "steps")


@pytest.mark.parametrize("type", get_args(EventType))
@pytest.mark.parametrize("left_out", ["", "name", "explanation", "gate"])
def test_no_text_of_a_model_adds_a_line(type: EventType, left_out: str) -> None:
    data: dict[str, Any] = {name: FORGED for name in WRITTEN.split() if name != left_out}
    data |= {name: [FORGED] for name in LISTS}
    line = Story(status()).line(event(1, type, **data))
    assert line is None or len(line.plain.splitlines()) == 1


def test_no_choice_adds_a_line_to_the_menu() -> None:
    assert len(menu_of(gate(kind="question", choices=(FORGED, "b"))).splitlines()) == 1
