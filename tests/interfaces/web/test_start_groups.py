"""The folded groups of the start form: what matters is in sight, all else is a word away."""

import re

import pytest
from page_visit import Visitor

from perdure.interfaces.rest.tasks import ReadyTask
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.start.groups import GROUPS, limit_words, open_groups
from perdure.interfaces.web.start.task_form import PARTS, TaskForm

EMPTY = TaskForm()
READY = TaskForm.of(
    ReadyTask(
        name="n",
        about="",
        kind="refine",
        fields={"kind": "refine", "goal": "g", "refine": {"max_iterations": 4}, "learn": False},
    )
)


def refused(*lines: str) -> ApiProblem:
    return ApiProblem(422, "invalid_input", "The task is not valid.", "", lines)


@pytest.mark.parametrize(
    ("changed", "opened"),
    [
        ({}, set()),
        ({"goal": "Name a fruit.", "kind": "agent"}, set()),
        ({"demands": "Be kind."}, {"quality"}),
        ({"most_words": "60", "folder": "/tmp"}, {"quality", "material"}),
        ({"kept": {"chart": "sha256:aa"}}, {"material"}),
        ({"cost_usd": "0.5"}, {"limits"}),
        ({"more": "learn: false"}, {"rest"}),
    ],
)
def test_what_a_person_wrote_is_unfolded(changed: dict[str, object], opened: set[str]) -> None:
    assert open_groups(EMPTY.model_copy(update=changed), base=EMPTY) == opened


def test_what_a_ready_made_task_brings_stays_folded_and_is_told() -> None:
    assert READY.max_iterations and READY.more
    assert open_groups(READY, base=READY) == set()
    sent = READY.more.strip().replace("\n", "\r\n")  # as a browser sends it
    assert open_groups(READY.model_copy(update={"more": sent}), base=READY) == set()
    assert open_groups(READY.model_copy(update={"max_iterations": ""}), base=READY) == {"limits"}
    assert limit_words(READY) == "the default model, at most $2, 4 iterations"
    shown = EMPTY.model_copy(update={"model": "small", "cost_usd": "0.5", "label": "x"})
    assert limit_words(shown) == "small, at most $0.5, label x"


@pytest.mark.parametrize(
    ("line", "opened"),
    [
        ("body.budget.cost_usd: found 'much', no number", {"limits"}),
        ("agent.max_iterations: found 'three', no number", {"limits"}),
        ("rubric.0.evaluator: found nothing", {"quality"}),
        ("workspace: found no folder /nowhere", {"material"}),
        ("more: no YAML (mapping values are not allowed)", {"rest"}),
        ("goal: found nothing", set[str]()),
    ],
)
def test_a_refusal_unfolds_what_it_is_about(line: str, opened: set[str]) -> None:
    assert open_groups(EMPTY, base=EMPTY, problem=refused(line)) == opened


def test_files_that_were_lost_are_asked_for_in_sight() -> None:
    assert open_groups(EMPTY, base=EMPTY, lost=True) == {"material"}


def test_every_field_with_a_default_is_in_one_group() -> None:
    grouped = [field for group in GROUPS.values() for field in group.fields]
    shown = {"goal", "kind", "definition", "ready"} | PARTS - {"kept"}
    assert sorted(grouped) == sorted(TaskForm.model_fields.keys() - shown)


async def test_the_form_is_folded_until_it_is_refused(person: Visitor) -> None:
    folded = await person.see("/new")
    assert len(re.findall(r'<details class="wide group" id="group-\w+">', folded)) == len(GROUPS)
    fields = {"kind": "agent", "goal": "Look.", "cost_usd": "much"}
    answer = await person.send("/new", fields, key=await person.form_key("/new"))
    assert answer.status_code == 422
    assert '<details class="wide group" id="group-limits" open>' in answer.text
    assert '<details class="wide group" id="group-rest">' in answer.text
    ready = await person.see("/new?task=job-matching")
    assert '<details class="wide group" id="group-rest">' in ready
    assert "4 iterations, label job-matching" in ready


async def test_a_folder_that_must_be_given_is_never_folded(person: Visitor) -> None:
    """A browser says nothing of a required field that nobody sees."""
    page = await person.see("/new?task=code-change")
    at = page.index('name="folder"')
    assert "required" in page[at : at + 60]
    assert at < page.index("<details", page.index('class="start"'))
