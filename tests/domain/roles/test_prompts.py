"""What a stage is told, in the order of the spec, and what is left out."""

from perdure.domain.evaluation.scores import Finding
from perdure.domain.roles.messages import StageFrame
from perdure.domain.roles.prompts import Told, answer_text, goal_prompt, stage_prompt
from perdure.domain.turns.entries import GoalEntry, StageEntry, StageShown
from perdure.domain.turns.guidance import SAID_SINCE

FINDING = Finding(
    id="V1", severity="important", dimension="review", title="No tests", location="a.py", fix="Add"
)
OWN = StageFrame(
    loop="team",
    stage="check",
    role="reviewer",
    task="Review it.",
    description="builds things",
    criteria="Tests pass.",
    parameters={"style": "short"},
    verdict=True,
)
ENTRY = StageEntry(
    type="stage",
    iteration=2,
    limit=5,
    place=3,
    of=3,
    done=(StageShown(iteration=2, name="plan", role="plan", line="first", ref="sha256:p"),),
    past=(StageShown(iteration=1, name="coder", role="coder", status="failed", line="broke"),),
    left_out=4,
    findings=(FINDING,),
    guidance=("Be kind.",),
    answer="Redis",
)
TOLD = Told(goal="Build it.", inputs={"notes": "n"}, texts={"sha256:p": "the whole plan"})


def test_the_sections_stand_in_the_order_of_the_spec() -> None:
    prompt = stage_prompt(OWN, ENTRY, TOLD)
    order = [
        "Loop: team (builds things)",
        "Build it.",
        '<input name="notes">',
        "iteration 2 of at most 5, stage 3 of 3",
        "Your role: reviewer (stage check)",
        '<stage name="plan" role="plan" status="completed">\nthe whole plan\n</stage>',
        "(4 stages before these are left out)",
        "- iteration 1, coder (failed): broke",
        "- [important] No tests (a.py): Add",
        "Acceptance criteria:\nTests pass.",
        "- style: short",
        "Guidance from a person: Be kind.",
        "Answer to your question: Redis",
        "Your task in this stage:\nReview it.",
        '"requirements_met"',
        "NEEDS_CONTEXT",
    ]
    places = [prompt.index(text) for text in order]
    assert places == sorted(places)


def test_what_is_not_there_is_not_spoken_of() -> None:
    bare = StageFrame(loop="team", stage="coder", role="coder", task="Code.")
    entry = StageEntry(type="stage", iteration=1, place=1, of=2)
    prompt = stage_prompt(bare, entry, Told(goal="Build it.", inputs={}, texts={}))
    for words in (
        "earlier",
        "Earlier",
        "findings",
        "criteria",
        "Parameters",
        "Guidance",
        "verdict",
    ):
        assert words not in prompt
    assert "of at most" not in prompt


def test_a_long_text_is_an_excerpt_that_can_be_read_on() -> None:
    told = Told(goal="g", inputs={}, texts={"sha256:p": "x" * 8_001})
    prompt = stage_prompt(OWN, ENTRY, told)
    assert 'artifact.read {"ref": "sha256:p"' in prompt
    assert "x" * 8_001 not in prompt


def test_the_next_stage_is_told_why_the_goal_is_not_achieved() -> None:
    entry = ENTRY.model_copy(update={"goal_reason": "The tests are missing."})
    prompt = stage_prompt(OWN, entry, TOLD)
    assert "The goal was not achieved after the last iteration" in prompt
    assert "<judge>\nThe tests are missing.\n</judge>" in prompt
    assert "<judge>" not in stage_prompt(OWN, ENTRY, TOLD)


def test_the_goal_judge_is_told_what_was_wrong_with_its_reply() -> None:
    asked = GoalEntry(type="goal", iteration=1, done=ENTRY.done, problems=("It was cut off.",))
    assert "could not be used:\n- It was cut off." in goal_prompt(OWN, asked, TOLD)


def test_the_goal_judge_sees_what_every_stage_said() -> None:
    asked = GoalEntry(type="goal", iteration=1, done=ENTRY.done, said=("Keep it short.",))
    prompt = goal_prompt(OWN, asked, TOLD)
    assert "the whole plan" in prompt
    assert f"{SAID_SINCE}\n- Keep it short." in prompt
    assert prompt.endswith("Is the goal achieved?")


def test_an_answer_says_whether_a_person_gave_it() -> None:
    assert "A person answered your question: Redis" in answer_text("Redis")
    told = answer_text("Redis", expired=True)
    assert "Nobody answered" in told
    assert "person" not in told
