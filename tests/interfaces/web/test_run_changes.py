"""Calls in parts, forks and amendments by forms, and comparisons."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_visit import visitor
from pydantic import JsonValue
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.domain.llm.transcript import Message, ToolResultBlock, assistant_message, user_message
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.compare.routes import flat, named, rows
from perdure.interfaces.web.run.changes import fork_body, plain, settings_of
from perdure.interfaces.web.run.prompt_parts import prompt_parts

RECALLED = "Known from earlier work:\nbe brief"
RESULT = ToolResultBlock(type="tool_result", call_id="1", name="fs.read", outcome="ok", text="x")


def test_a_prompt_folds_by_what_its_parts_are() -> None:
    messages = (
        user_message(f"Write.\n\nIn prose.\n\n{RECALLED}"),
        assistant_message("a draft"),
        user_message("Missing: a colour."),
        Message(role="user", blocks=(RESULT,)),
    )
    parts = prompt_parts("Be careful.", messages)
    assert [(part.title, part.text) for part in parts] == [
        ("System", "Be careful."),
        ("Task", "Write.\n\nIn prose."),
        ("Recalled", RECALLED),
        ("Text of the model", "a draft"),
        ("Feedback", "Missing: a colour."),
        ("Result of fs.read (ok)", "x"),
    ]


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_no_word_of_a_prompt_is_lost(texts: list[str]) -> None:
    said = "\n\n".join(texts)
    parts = prompt_parts(None, (user_message(said),))
    assert "\n\n".join(part.text for part in parts) == said


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("[1]", [1]), ("gpt", "gpt"), ("NaN", "NaN")],
)
def test_values_of_forms_are_read_as_json_where_they_are(text: str, value: JsonValue) -> None:
    assert plain(text) == value


def test_a_form_of_a_fork_says_only_what_was_filled_in() -> None:
    fields = {"goal": "", "quality": "0.9", "cost_usd": "3", "set": " refine.patience = 2 \n\n"}
    assert fork_body(fields, 4) == {
        "iteration": 4,
        "quality": 0.9,
        "budget": {"cost_usd": 3},
        "set": {"refine.patience": 2},
    }


@pytest.mark.parametrize("line", ["patience", "=3", " = "])
def test_a_setting_without_its_path_is_named(line: str) -> None:
    with pytest.raises(ApiProblem, match="path=value"):
        settings_of(f"a=1\n{line}")


@pytest.mark.parametrize(
    ("text", "found"),
    [("r", ("r", None)), (" r:2 ", ("r", 2)), ("a:b:2", ("a:b", 2)), ("r:x", ("r:x", None))],
)
def test_sides_are_named_by_run_and_iteration(text: str, found: tuple[str, int | None]) -> None:
    assert named(text) == found


def test_settings_are_compared_by_their_paths() -> None:
    left, right = flat({"a": {"b": 1, "c": []}, "d": "x"}), flat({"a": {"b": 2}, "d": "x"})
    assert [(row.name, row.differs) for row in rows(left, right)] == [
        ("a.b", True),
        ("a.c", True),
        ("d", False),
    ]


DRAFTS = {"replies": [{"text": "a first\u202e text <script>x</script>"}, {"text": "a Bottle"}]}
TASK = {
    "kind": "refine",
    "goal": "Write a text",
    "learn": False,
    "recall": False,
    "refine": {"max_iterations": 2, "plan": "off", "classify": "off"},
    "rubric": [{"name": "names it", "evaluator": {"check": "contains", "all": ["Bottle"]}}],
}


@pytest.fixture
async def refining(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    script = DRAFTS | {"exhausted": "repeat_last"}
    async with (
        scripted(tmp_path / "home", address, script) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


async def test_calls_forks_and_comparisons_on_the_page(refining: Rest) -> None:
    run = await refining.start(TASK)
    await refining.ended(run)
    async with visitor(refining, await refining.token("admin")) as person:
        calls = await person.see(f"/runs/{run}/iterations/1/calls", **{"hx-request": "true"})
        assert "Write a text" in calls
        assert "Task" in calls
        assert "&lt;script&gt;x&lt;/script&gt;" in calls
        assert "\u202e" not in calls
        compared = await person.see(f"/compare?left={run}:1&right={run}:2")
        assert "+ a Bottle" in compared
        assert "Both have the same settings." in compared
        assert "\u202e" not in compared

        form = f"/runs/{run}/iterations/1/fork"
        key = await person.form_key(form)
        wrong = await person.send(form, {"set": "refine.patients=3", "goal": "kept"}, key=key)
        assert wrong.status_code == 422
        assert "refine.patients" in wrong.text
        assert ">kept</textarea>" in wrong.text
        fields = {"quality": "0.5", "label": "forked", "key": "once"}
        made = await person.send(form, fields, key=key)
        assert made.status_code == 303, made.text
        address = made.headers["location"]
        again = await person.send(form, fields, key=key)
        assert again.headers["location"] == address, "sent twice, it is started once"
        assert 'name="key" value="' in await person.see(form)
        forked = address.removeprefix("/runs/")
        await refining.ended(forked)
        compared = await person.see(f"/compare?left={run}&right={forked}")
        assert "refine.quality_threshold" in compared
        late = await person.send(f"{address}/amend", {"tokens": "9000"}, key=key)
        assert late.status_code == 409
        assert 'role="alert"' in late.text
        assert "forked" in late.text, "the refusal stands on the page of the run"
