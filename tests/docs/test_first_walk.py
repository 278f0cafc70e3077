"""A newcomer's first hour: the commands of README and tutorial, one after the other, as they stand.

In an empty folder, by a shell that finds the command `perdure` and nothing else, with services
that the first command starts. The tutorial brings a script for its model; the README gets one.
"""

import pytest

from tests.docs.newcomer import Newcomer, section
from tests.docs.test_blocks import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
async def test_the_tutorial_is_walked_as_it_stands(newcomer: Newcomer) -> None:
    # Installing and a real model (1 and 7) are tried by hand.
    second, third, fourth, fifth, sixth = [
        section(TUTORIAL, f"{number}. ") for number in range(2, 7)
    ]
    (ready_made,) = await newcomer.follow(second)
    assert "[iter 2/3] score 1.00" in ready_made
    planned, story = await newcomer.follow(third)
    assert "[done] 3 iterations" in planned
    assert "wanted: Use at most 25 words." in story
    (checked,) = await newcomer.follow(fourth)
    assert "[iter 1/4] score 0.25" in checked and "[iter 3/4] score 1.00" in checked
    (priced,) = await newcomer.follow(fifth)
    assert "[tool] shop.price steel bottle → 19.90 €" in priced and "answered" in priced
    asked, answered, applied = await newcomer.follow(sixth)
    assert "Approve fs.write?" in asked and "notes.md" in answered + applied
    assert (newcomer.folder / "notes.md").read_text() == "Faster starts, and two bugs less.\n"


@pytest.mark.long
async def test_the_first_task_of_the_readme_is_walked_as_it_stands(newcomer: Newcomer) -> None:
    written = "A steel bottle, warm in the hand, safe in the dishwasher."
    (newcomer.folder / "replies.yaml").write_text(
        f"replies:\n  - {{when: {{role: executor}}, text: '{written}'}}\n"
        "  - when: {role: evaluator}\n"
        "    json: {dimensions: [{name: tone, score: 1.0}], findings: []}\n"
    )
    (newcomer.folder / "perdure.yaml").write_text("models: {executor: scripted:replies.yaml}\n")
    (commands,) = await newcomer.follow(section(README, "Your first task"))
    assert "✓ bottle.yaml is a valid task" in commands
    assert written in commands and "quality met" in commands
