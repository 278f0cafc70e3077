"""Forking: what the new run is told, and what is refused."""

import json

import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.spec import RefineSpec
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN

SPEC = RefineSpec.model_validate(
    {
        "kind": "refine",
        "goal": "Write a product text.",
        "models": {"executor": "scripted:sha256:" + "a" * 64},
        "rubric": [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 60}}],
        "refine": {"max_iterations": 6},
        "metadata": {"label": "bottle"},
    }
)


def test_a_fork_differs_in_what_was_said_alone(perdure: Installation) -> None:
    perdure.gateway.forkable = SPEC
    (perdure.folder / "perdure.yaml").write_text("budget: {tokens: 5}\n")
    argv = ("fork", RUN, "--from-iteration", "2", "--set", "refine.patience=4")
    assert perdure.run(*argv, "--budget", "0.5", "--label", "second", "--goal", "Again: short") == 0
    assert perdure.gateway.forked == [(RUN, 2)]
    [spec] = perdure.gateway.started
    assert isinstance(spec, RefineSpec)
    assert (spec.goal, spec.metadata.label) == ("Again: short", "second")
    assert (spec.refine.patience, spec.refine.max_iterations) == (4, 6)
    assert (str(spec.budget.cost_usd), spec.budget.tokens) == ("0.5", SPEC.budget.tokens)
    assert (spec.rubric, spec.models) == (SPEC.rubric, SPEC.models)
    assert "[done]" in perdure.out


def test_a_list_is_reached_into(perdure: Installation) -> None:
    perdure.gateway.forkable = SPEC
    argv = ("fork", RUN, "--from-iteration", "1", "--set", "rubric[0].weight=3", "--detach")
    assert perdure.run(*argv, "--json") == 0
    assert perdure.gateway.started[0].rubric.dimensions[0].weight == 3  # type: ignore[union-attr]
    assert json.loads(perdure.out)["type"] == "started"


@pytest.mark.parametrize("sets", ["refine.patience=0", "nonsense=1", "rubric=[]"])
def test_changes_that_make_no_run_are_refused(perdure: Installation, sets: str) -> None:
    perdure.gateway.forkable = SPEC
    assert perdure.run("fork", RUN, "--from-iteration", "1", "--set", sets) == 2
    assert perdure.gateway.started == []


def test_an_iteration_that_is_not_there_is_refused(perdure: Installation) -> None:
    perdure.gateway.refusals[RUN] = InvalidInput("no iteration 9.", cure="It has: 1, 2.")
    assert perdure.run("fork", RUN, "--from-iteration", "9") == 2
    assert "It has: 1, 2." in perdure.err
