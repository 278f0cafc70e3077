"""The tasks on the page of patterns do what their pattern says, as they stand there."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from installation import Installation

from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.loading import load, store
from perdure.submission.types import Flags, Surroundings

PAGE = (Path(__file__).parents[2] / "docs" / "patterns.md").read_text(encoding="utf-8")
TASKS = dict(re.findall(r"### ([^\n]+)\n\n```yaml\n(.*?)```", PAGE, re.DOTALL))


OVERLAY = """
models: {executor: "scripted:script.yaml"}
recall: false
learn: false
refine: {plan: off}
"""


@dataclass(frozen=True, slots=True)
class Played:
    """What a model says to a task, and how its run then ends, after how many iterations."""

    replies: list[str]
    reason: str
    iterations: int


# A full score, like a draft that is no better than the one before, ends the pattern `improvement`.
PLAYED = {
    "Write a reply": Played(
        ["Sorry about order 4711.", "Sorry about order 4711. A new cup leaves on Friday."],
        "quality_met", 2,
    ),
    "Put a roadmap in order": Played(
        ['["payments", "login", "reports", "search"]',
         '["search", "login", "payments", "reports"]'],
        "quality_met", 2,
    ),
    "Find gaps in skills": Played(
        ['{"missing": ["Airflow"], "weak": [], "plan": []}',
         '{"missing": ["Airflow"], "weak": ["Python"], "plan": ["a course", "a project"]}'],
        "quality_met", 2,
    ),
    "Fill in an application": Played(
        ['{"name": "Ada Bakker", "email": "ada@example.com", "start": "March", '
         '"why": "I like to forecast what sells."}', '"2027-03-01"'],
        "all_items_pass", 2,
    ),
    "Prepare for an interview": Played(
        ["## Questions\n\nWhy you? Why us? Why now?\n\n"
         "## Stories\n\nThe oven: result, no waste. The till: result, no queue.\n\n"
         "## Company\n\nA bakery.", "They sell bread."],
        "all_items_pass", 2,
    ),
    "Complete a profile": Played(
        ["Name: Ada Bakker\nForecasts bread\nI like bread.", "Forecasts what bakeries sell",
         "I forecast what bakeries sell, so that no bread is thrown away."],
        "all_items_pass", 2,
    ),
    "Extract what a text says": Played(
        ['{"number": "INV 2027-031"}', '{"number": "INV 2027-031", "total": 48.40}'],
        "strategy_succeeded", 2,
    ),
    "Call a service that may be down": Played(
        ["It did not answer.", "1.0853, says https://rates.example.org/latest"],
        "strategy_succeeded", 2,
    ),
    "Broaden a search": Played(["No file says so.", "docs/orders.md"], "strategy_succeeded", 2),
}  # fmt: skip


def test_every_task_is_played() -> None:
    assert set(PLAYED) == set(TASKS)


@pytest.mark.parametrize("name", sorted(TASKS))
async def test_a_task_of_the_page_runs_as_it_stands(
    name: str, site: Installation, tmp_path: Path
) -> None:
    played = PLAYED[name]
    (tmp_path / "task.yaml").write_text(TASKS[name])
    replies = [{"text": text} for text in played.replies]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"replies": replies}))
    (tmp_path / "played.yaml").write_text(OVERLAY)
    surroundings = Surroundings(folder=tmp_path, definitions=DEFINITIONS)
    flags = Flags(example=tmp_path / "played.yaml")
    submission = load("task.yaml", flags, surroundings=surroundings)
    run = await site.gateway.start(await store(submission, site.parts.stores.blobs))
    result = await site.gateway.result(run)
    assert (result.reason, result.iteration_count) == (played.reason, played.iterations)
