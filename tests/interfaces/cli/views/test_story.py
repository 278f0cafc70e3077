"""What several events say together."""

from inline_snapshot import snapshot

from perdure.domain.events import Event
from perdure.domain.status import RunStatus
from perdure.interfaces.cli.views.story import Story
from tests.interfaces.cli.samples import event, status


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
        event(4, "iteration_completed", score=0.73),
        event(5, "evaluated", kind="incremental", scores={"short": 1.0, "tone": 1.0}),
        event(6, "iteration_completed", iteration=2, score=1.0),
        event(7, "iteration_completed", iteration=3, error="the model gave nothing"),
        event(8, "ended", outcome="accepted"),
    )
    assert lines == snapshot(
        [
            "[start] Write a product text for a steel water bottle.",
            "[iter 1/6] score 0.73 · missing tone; words",
            "[iter 2/6] score 1.00 (eval: incremental)",
            "[iter 3/6] the model gave nothing",
        ]
    )


def test_a_conversation_tells_its_turns_and_tools() -> None:
    lines = told(
        status(kind="agent", iteration_limit=50),
        event(1, "model_replied", tokens=1_200, text="let me\nlook", stop_reason="tool_use"),
        event(2, "tool_finished", tool="fs.list", outcome="ok"),
        event(3, "tool_refused", tool="fs.write", why="not on offer"),
        event(4, "iteration_completed", decision="continue"),
        event(5, "model_failed_over", failed="a", to="b", why="overloaded"),
        event(6, "gate_opened", gate="g1", kind="tool_approval", prompt="May I?"),
        event(7, "model_replied", tokens=1),
    )
    assert lines == snapshot(
        [
            "[turn 1/50] 1,200 tokens · let me look",
            "[tool] fs.list · ok",
            "[tool] fs.write · not on offer",
            "[model] a · b · overloaded",
            "[tool approval g1] May I?  → perdure answer refine-steel-bottle-7f3a:g1 approve|deny",
            "[turn 1/50] 1 token",
        ]
    )
