"""Which models a run calls for certain, held against what the workers lack."""

from collections.abc import Mapping

import pytest
from teams import stage, task, team

from perdure.domain.model_availability import family_of, unserved
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.specs import RUN_SPEC

NO_KEY = {"claude": "no key"}
NOTHING = {"claude": "no key", "local": "not installed"}
JUDGED = [{"name": "tone", "evaluator": {"judge": {}}}]
CHECKED = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
BELOW = LoopSnapshot.model_validate(team(stage("inner", model="claude-x"), stage("last")))
NESTED = {"name": "build", "loop": {"definition": "team"}, "prompt": "Build."}


def agent(*chain: str, **fields: object) -> dict[str, object]:
    return {"kind": "agent", "goal": "g", "models": {"executor": list(chain)}, **fields}


@pytest.mark.parametrize(
    ("given", "lacks", "told"),
    [
        pytest.param(agent("claude-x"), NO_KEY, ["models.executor: claude-x: no key"], id="agent"),
        pytest.param(agent("claude-x"), {}, [], id="an-older-worker-says-nothing"),
        pytest.param(agent("claude-x", "local"), NO_KEY, [], id="a-chain-with-one-that-is-served"),
        pytest.param(
            agent("claude-x", "local"),
            NOTHING,
            ["models.executor: claude-x, local: no key; not installed"],
            id="a-chain-without-any",
        ),
        pytest.param(agent("scripted:sha256:0"), NOTHING, [], id="a-script"),
        pytest.param(agent("plugin:x", "else"), NOTHING, [], id="unknown-families-are-left"),
        pytest.param(
            agent("local", kind="refine", rubric=JUDGED)
            | {"models": {"executor": "local", "evaluator": "claude-x"}},
            NO_KEY,
            ["models.evaluator: claude-x: no key"],
            id="a-judge",
        ),
        pytest.param(
            agent("local", kind="refine", rubric=CHECKED)
            | {"models": {"executor": "local", "evaluator": "claude-x"}},
            NO_KEY,
            [],
            id="an-evaluator-that-judges-nothing",
        ),
        pytest.param(
            {"kind": "delegation", "goal": "g"}
            | {"models": {"executor": "local", "manager": "claude-x", "worker": "claude-x"}},
            NOTHING,
            ["models.manager: claude-x: no key"],
            id="a-manager-is-told-once-and-an-idle-executor-never",
        ),
        pytest.param(
            task(team(stage("a", model="claude-x"), stage("b")), models={"executor": "local"}),
            NO_KEY,
            ["team.roles.a.model: claude-x: no key"],
            id="a-stage",
        ),
        pytest.param(
            task(
                team(NESTED, stage("b", model="scripted:sha256:0"), nested={"build": BELOW}),
                models={"executor": "local"},
            ),
            NOTHING,
            ["team.roles.inner.model: claude-x: no key", "models.executor: local: not installed"],
            id="stages-of-a-loop-inside",
        ),
    ],
)
def test_what_nobody_can_call_is_told_with_its_place(
    given: Mapping[str, object], lacks: Mapping[str, str], told: list[str]
) -> None:
    assert list(unserved(RUN_SPEC.validate_python(given), lacks)) == told


@pytest.mark.parametrize(
    ("model", "family"),
    [("local", "local"), ("smollm2-135m-instruct", "local"), ("claude-x", "claude"),
     ("scripted:sha256:0", None), ("gpt", None)],
)  # fmt: skip
def test_only_a_certain_name_has_a_family(model: str, family: str | None) -> None:
    assert family_of(model) == family
