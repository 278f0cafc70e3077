"""The loop commands: what is sent, what is refused before anything starts, and what is shown."""

import json

import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.messages import Pause, Resume, Retry, Stop
from perdure.domain.specs import Spec
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN


@pytest.mark.parametrize(
    ("argv", "run", "expected"),
    [
        (("pause", RUN), RUN, Pause(by="ann")),
        (("resume", "refine-steel"), RUN, Resume(by="ann")),
        (("stop", "@last"), RUN, Stop(by="ann")),
        (("retry", RUN, "--note", "again"), RUN, Retry(by="ann", note="again")),
        (("pause", "all"), "all:roles", Pause(by="ann")),
        (("stop", "all"), "all:roles", Stop(by="ann")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_verbs_are_sent_with_who_asks(
    perdure: Installation, argv: tuple[str, ...], run: str, expected: Pause
) -> None:
    assert perdure.run("loops", *argv) == 0
    [(taken, sent)] = perdure.gateway.sent
    assert taken == run
    assert sent.model_copy(update={"request_id": None}) == expected


def test_definitions_are_listed_with_stages_and_parameters(perdure: Installation) -> None:
    assert perdure.run("loops", "definitions") == 0
    assert "harness" in perdure.out
    assert "plan → code → review" in perdure.out
    assert perdure.run("loops", "definitions", "--json") == 0
    names = [one["name"] for one in json.loads(perdure.out.splitlines()[-1])]
    assert {"harness", "research", "goal-driven"} <= set(names)


def test_a_loop_is_started_with_parameters_and_limits(perdure: Installation) -> None:
    words = ("loops", "start", "research", "why rust", "--param", "output_format=a table")
    limits = ("--max-iterations", "2", "--model", "claude-x", "--budget", "0.5", "--detach")
    assert perdure.run(*words, *limits) == 0
    [spec] = perdure.gateway.started
    assert isinstance(spec, RolesSpec)
    assert (spec.goal, spec.roles.definition) == ("why rust", "research")
    assert spec.roles.parameters == {"output_format": "a table"}
    assert spec.roles.max_iterations == 2
    assert (spec.models.executor, str(spec.budget.cost_usd)) == ("claude-x", "0.5")
    assert spec.workspace is None


def _seated(spec: Spec) -> Spec:
    assert isinstance(spec, RolesSpec)
    snapshot = {
        "version": "1",
        "definition": {
            "name": "harness",
            "roles": [
                {"name": "code", "prompt": "p", "access": "full"},
                {"name": "review", "prompt": "p", "access": "readonly"},
            ],
            "termination_condition": {"type": "evaluation_bound", "criteria": "It works."},
        },
    }
    update = {"snapshot": LoopSnapshot.model_validate(snapshot)}
    return spec.model_copy(update={"roles": spec.roles.model_copy(update=update)})


def test_a_dry_run_shows_the_stages_and_starts_nothing(perdure: Installation) -> None:
    perdure.gateway.filled_in = _seated
    words = ("loops", "start", "harness", "mend it", "--max-iterations", "2", "--dry-run")
    assert perdure.run(*words) == 0
    told = " ".join(perdure.out.split())
    assert "iterations at most 2: code → review" in told
    assert "ends when the review approves, or after 2 iterations" in told
    assert "its verdict counts" in told
    assert "2,000,000 tokens" in told
    assert perdure.gateway.started == []
    (perdure.folder / "t.yaml").write_text(
        "{kind: roles, goal: mend it, roles: {definition: harness}}", encoding="utf-8"
    )
    assert perdure.run("run", "t.yaml", "--dry-run", "--json") == 0
    plan = json.loads(perdure.out.splitlines()[-1])
    assert [(one["name"], one["access"]) for one in plan["stages"]] == [
        ("code", "full"),
        ("review", "readonly"),
    ]
    assert (plan["iterations"], perdure.gateway.started) == (5, [])


def test_a_dry_run_refuses_what_a_start_would_refuse(perdure: Installation) -> None:
    perdure.gateway.check_error = InvalidInput("There is no loop 'harnes'.", cure="harness")
    assert perdure.run("loops", "start", "harnes", "mend it", "--dry-run") == 2
    assert "There is no loop 'harnes'." in perdure.err


def test_in_a_repository_a_loop_works_on_a_copy_of_it(perdure: Installation) -> None:
    (perdure.folder / ".git").mkdir()
    assert perdure.run("loops", "start", "harness", "mend it", "--detach") == 0
    [spec] = perdure.gateway.started
    assert spec.workspace == str(perdure.folder)


def test_a_loop_of_this_folder_works_on_it(perdure: Installation) -> None:
    folder = perdure.folder / "loops"
    folder.mkdir()
    text = "{name: own, roles: [{role: coder, prompt: p}], termination_condition: {type: manual}}"
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    assert perdure.run("loops", "start", "own", "g", "--detach") == 0
    assert perdure.run("loops", "start", "harness", "g", "--detach") == 0
    assert [spec.workspace for spec in perdure.gateway.started] == [str(perdure.folder), None]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("start", "harness", "x", "--param", "topic"), 2, "found no name=value"),
        (("start", "harness", ""), 2, "goal"),
        (("start", "harness", "x", "--max-iterations", "0"), 2, "max_iterations"),
        (("retry", "all"), 2, "one run, not all"),
        (("pause",), 2, "ID|all"),
        (("list", "--status", "runing"), 2, "running"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_words_start_and_send_nothing(
    perdure: Installation, argv: tuple[str, ...], code: int, said: str
) -> None:
    assert perdure.run("loops", *argv) == code
    assert said in perdure.err
    assert perdure.gateway.sent == []
