"""The page of one run: its words, its drawing, its parts over HTTP."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_visit import Visitor, visitor
from rest import APPROVED, ASKING, Rest, scripted, served
from stages import open_gate
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.gateway.types import RunRow
from perdure.interfaces.rest.schemas import Runs
from perdure.interfaces.web.differences import differences
from perdure.interfaces.web.rendering import rendered
from perdure.interfaces.web.run.reading import scarcest
from perdure.interfaces.web.run.score_plot import Point, score_plot
from perdure.interfaces.web.run.sentence import elapsed, now_sentence

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def status(**given: Any) -> RunStatus:
    common = {
        "id": "r",
        "kind": "refine",
        "goal": "g",
        "lifecycle": "running",
        "phase": "executing",
    }
    return RunStatus.model_validate(common | {"budget": {"limits": {}}} | given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"phase": "starting"}, "It is being opened."),
        ({"iteration": 2}, "It works on the result, in iteration 2."),
        (
            {"iteration": 2, "iteration_limit": 3},
            "It works on the result, in iteration 2 of at most 3.",
        ),
        (
            {
                "phase": "staging",
                "stage": {"index": 2, "of": 3, "name": "review", "role": "r", "attempt": 2},
            },
            "Its stages are at work, in stage 2 of 3 (review, attempt 2).",
        ),
        (
            {"stop": "graceful"},
            "It was told to stop, and ends with its best result after the step in flight.",
        ),
        ({"stop": "now"}, "It is being stopped: what it does now is cancelled."),
        ({"lifecycle": "paused"}, "It is paused, and goes on when somebody resumes it."),
        (
            {"lifecycle": "waiting", "blocked_on": "tool_approval"},
            "It waits until somebody approves or denies a tool call.",
        ),
        (
            {"lifecycle": "waiting", "blocked_on": "children"},
            "It waits for an answer to a question.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_run_does_is_one_sentence(given: dict[str, Any], told: str) -> None:
    assert now_sentence(status(**given)) == told


def test_the_clock_of_a_run_moves_between_its_steps() -> None:
    began = NOW - timedelta(seconds=90)
    assert elapsed(status(started_at=began, elapsed_s=2), NOW) == 90
    assert elapsed(status(started_at=began, elapsed_s=2, phase="ended"), NOW) == 2


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"limits": {}, "tokens": 900}, ""),
        ({"limits": {"tokens": 1_000, "cost_usd": 2}, "tokens": 400, "cost_usd": "0.9"}, ""),
        ({"limits": {"tokens": 1_000, "cost_usd": 2}, "tokens": 900, "cost_usd": "1.9"}, "money"),
        ({"limits": {"active_time": 10, "tool_calls": 0}, "active_time_s": 11}, "working time"),
        ({"limits": {"cost_usd": 2, "tokens": 10}, "cost_usd": None, "tokens": 5}, "tokens"),
    ],
)
def test_the_limit_that_is_nearly_used_up_is_named(budget: dict[str, Any], told: str) -> None:
    assert scarcest(BudgetStatus.model_validate(budget)) == told


def test_a_drawing_marks_the_best_and_what_fell() -> None:
    points = [Point(1, 0.5, "continue"), Point(2, 0.9, "continue"), Point(4, 0.4, "accept_best")]
    drawn = str(score_plot(points, 0.8))
    assert drawn.count("<circle") == 3
    assert drawn.count('class="best"') == drawn.count('class="fell"') == 1
    assert "threshold 0.8" in drawn
    assert 'class="mark end threshold"' not in drawn, "at the end the line would cross its words"
    assert "best 0.90 in iteration 2" in drawn
    assert "style=" not in drawn


@pytest.mark.parametrize("count", [0, 1])
def test_one_point_is_no_drawing(count: int) -> None:
    assert score_plot([Point(1, 0.5, "continue")] * count, None) is None


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=40), st.text())
def test_a_drawing_stays_in_its_frame_and_escapes(scores: list[float], decision: str) -> None:
    points = [Point(at, value, decision) for at, value in enumerate(scores, 1)]
    drawn = str(score_plot(points, None))
    for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', drawn):
        assert 0 <= float(x) <= 640
        assert 0 <= float(y) <= 200
    assert "<script" not in drawn


def test_a_drawing_of_many_iterations_looks_at_each_a_few_times() -> None:
    looks = 0

    class Looked(float):
        def __gt__(self, other: float) -> bool:
            nonlocal looks
            looks += 1
            return super().__gt__(other)

    points = [Point(at, Looked(at / 1_000), "continue") for at in range(1_000)]
    drawn = score_plot(points, None)
    assert drawn is not None
    assert drawn.count('class="best"') == 1
    assert looks < 10 * len(points)


@given(st.text("ab\n"), st.text("ab\n"))
def test_a_comparison_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    lines = differences(before, after)
    assert lines is not None
    gone = [line.text for line in lines if line.kind == "gone"]
    assert set(gone) <= set(before.splitlines())
    assert {line.text for line in lines if line.kind == "new"} <= set(after.splitlines())
    assert (not lines) == (before.splitlines() == after.splitlines())


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_pieces_of_a_line_are_the_line(before: str, after: str) -> None:
    for line in differences(before, after) or ():
        assert not line.pieces or "".join(piece.text for piece in line.pieces) == line.text


def test_the_words_that_differ_are_marked() -> None:
    lines = differences("a warm bottle of steel\nsame", "a cold bottle of steel, light\nsame")
    assert lines is not None
    marked = {line.kind: [one.text for one in line.pieces if one.differs] for line in lines}
    assert (marked["gone"], marked["new"]) == (["warm "], ["cold ", ", light"])
    other = differences("nothing in common", "Wholly different, as people say")
    assert other is not None
    assert all(not line.pieces for line in other)


NUMBERS = [str(number) for number in range(9_000)]
TOO_LONG = {
    "characters": ("a" * 150_000, "b" * 60_000),
    "lines that repeat": ("\n".join(NUMBERS[:190] * 90), "\n".join(NUMBERS[189::-1] * 90)),
    "every other line": ("\n".join(NUMBERS), "\n!\n".join(NUMBERS)),
}
REPEATED = {
    "words that repeat": ("a b " * 2_400, "b a " * 2_400),
    "every other word": (" ".join(NUMBERS[:2_000]), " ! ".join(NUMBERS[:2_000])),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("before", "after"), TOO_LONG.values(), ids=TOO_LONG)
def test_what_is_too_long_is_not_compared(before: str, after: str) -> None:
    assert differences(before, after) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("before", "after"), REPEATED.values(), ids=REPEATED)
def test_words_are_marked_as_far_as_time_allows(before: str, after: str) -> None:
    lines = differences(
        "\n".join([before] * 9 + ["one new word"]), "\n".join([after] * 9 + ["one old word"])
    )
    assert lines is not None
    gone = [line for line in lines if line.kind == "gone"]
    assert not all(line.pieces for line in gone)
    assert gone[-1].pieces, "a short line is marked all the same"


HOSTILE = "# Bottle\n<script>alert(1)</script> [x](javascript:alert(2)) \u202egnp.exe ![i](http://x/y.png)"
DRAFTS = {
    "replies": [{"text": "a first text"}, {"text": HOSTILE}],
    "exhausted": "repeat_last",
}
TASK = {
    "kind": "refine",
    "goal": "Write <b>a text</b>",
    "learn": False,
    "recall": False,
    "refine": {"max_iterations": 3, "plan": "off", "classify": "off"},
    "rubric": [{"name": "names it", "evaluator": {"check": "contains", "all": ["Bottle"]}}],
}


@pytest.fixture
async def refining(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, DRAFTS) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


async def test_a_run_is_shown_with_its_reasons_and_can_do_nothing(refining: Rest) -> None:
    run = await refining.start(TASK)
    await refining.ended(run)
    async with visitor(refining, await refining.token("read")) as person:
        page = await person.see(f"/runs/{run}")
        second = await person.see(f"/runs/{run}/iterations/2", **{"hx-request": "true"})
    assert "Write &lt;b&gt;a text&lt;/b&gt;" in page
    assert "What would have changed it" in page
    assert "Checklist of the best" in page
    assert 'class="plot"' in page
    assert "Where the tokens went" in page, "its model costs nothing: the bars are of tokens"
    for text in (page, second):
        assert "<script>alert" not in text
        assert "javascript:" not in text.replace("](javascript:alert(2))", "")
        assert "\u202e" not in text
        assert "<img" not in text.replace('<img src="/assets/', "")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page, "it is shown whole, as text"
    assert "Changes since iteration 1" in second
    assert "formaction" not in page, "who may only read sees no buttons"
    async with visitor(refining, await refining.token("operate")) as person:
        assert "/retry" not in await person.see(f"/runs/{run}"), "it cannot help an accepted run"


async def test_what_does_not_exist_says_so(person: Visitor) -> None:
    for path in ("/runs/nobody", "/runs/nobody/iterations/1", "/nowhere"):
        answer = await person.client.get(path)
        assert answer.status_code == 404
        assert "There is no" in answer.text


@pytest.mark.slow
async def test_a_run_that_no_worker_takes_says_so(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, served(site) as rest:
        async with site.worker():
            run = await rest.start(APPROVED)
            await open_gate(site, run)
        monkeypatch.setattr("perdure.gateway.dispatch.PATIENCE_S", 0)
        plain = await Client.connect(address)
        handle = plain.get_workflow_handle(run)
        await handle.signal("a name that nobody knows")
        async with visitor(rest, await rest.token("read")) as person:

            async def told() -> bool:
                return "No worker has taken the run itself" in await person.see(f"/runs/{run}")

            await eventually(told)
        await handle.terminate()


@pytest.mark.parametrize(
    ("failing", "told"), [(False, "waiting for a worker"), (True, "its code keeps failing")]
)
def test_only_a_run_that_fails_is_marked_as_bad_in_the_list(failing: bool, told: str) -> None:
    row = RunRow(id="r", kind="agent", goal="g", lifecycle="running", trouble=told, failing=failing)
    page = rendered(
        "runs/rows.html", NOW, found=Runs(items=(row,)), can=lambda _: False, glances={}
    )
    assert told in page
    assert ('class="bad"' in page) == failing
