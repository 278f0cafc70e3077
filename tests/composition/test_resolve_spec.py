"""What a specification leaves open, and which models it names in vain."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from teams import stage, task, team

from perdure.adapters.checks import check_problems
from perdure.adapters.definitions.store import LoopFiles
from perdure.adapters.llm.embedded_facts import LOCAL_NAME
from perdure.adapters.llm.model_cards import FREE
from perdure.composition.resolve_spec import Plugins, Resolver
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.bookkeeping_messages import Served, ServedModels, ServedPlugins
from perdure.domain.run.spec import ModelsSpec
from perdure.domain.specs import RUN_SPEC
from perdure.domain.tools.definitions import ToolDefinition

KNOWN = "claude-known"
LOOPS = LoopFiles(Path("/nowhere"))
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class FewModels:
    """Knows one model, and serves it."""

    def resolve(self, model: str) -> "FewModels":
        if model != KNOWN:
            raise InvalidInput(f"No model is called {model}.")
        return self

    async def card(self, model: str) -> ModelProfile:
        return ModelProfile(name=model, price=None)


JUDGED = [{"name": "a", "evaluator": {"judge": {}}}]


class NoTools:
    async def catalog(self) -> tuple[()]:
        return ()


def resolver(default: str = KNOWN) -> Resolver:
    return Resolver(FewModels(), default, NoTools(), loops=LOOPS, now=lambda: NOW)  # type: ignore[arg-type]


async def test_default_and_names_are_those_of_the_workers_where_they_say_them() -> None:
    spec = RUN_SPEC.validate_python({"kind": "agent", "goal": "g"})
    found = await resolver("typo").resolve(spec, Served(models=ServedModels(default=KNOWN)))
    assert found.models.executor == KNOWN

    theirs = spec.model_copy(update={"models": ModelsSpec(executor="ours-1", evaluator="ours-2")})
    with pytest.raises(InvalidInput, match="ours-2"):
        await resolver().resolve(theirs, Served(models=ServedModels(names=("ours-1",))))
    served = Served(models=ServedModels(names=("ours-1", "ours-2")))
    assert (await resolver().resolve(theirs, served)).models == theirs.models
    anything = Served(models=ServedModels(any=True))
    assert (await resolver().resolve(theirs, anything)).models == theirs.models


async def test_what_only_workers_have_is_known_by_their_answer() -> None:
    there = ToolDefinition(name="shop.stock", description="", parameters={}, access="write")
    given = {
        "kind": "refine",
        "goal": "g",
        "rubric": [{"name": "a", "evaluator": {"check": "shop.polite"}}],
        "tools": {"access": "full", "allow": ["shop.stock"]},
        "hooks": {"on_end": ["shop.tell"]},
    }
    spec = RUN_SPEC.validate_python(given)
    none = Plugins(hooks=frozenset())
    resolving = Resolver(FewModels(), KNOWN, NoTools(), none, loops=LOOPS, now=lambda: NOW)  # type: ignore[arg-type]
    for nobody in (None, Served()):
        with pytest.raises(InvalidInput) as refused:
            await resolving.resolve(spec, nobody)
        assert [place for place, _ in refused.value.problems] == [
            "tools.allow",
            "rubric[0].evaluator.check",
            "hooks.on_end[0]",
        ]
    plugins = ServedPlugins(tools=(there,), checks=("shop.polite",), hooks=("shop.tell",))
    assert (await resolving.resolve(spec, Served(plugins=plugins))).tools == spec.tools


@pytest.mark.parametrize(
    ("models", "default", "told"),
    [
        ({"executor": "typo"}, KNOWN, ["executor: No model is called typo."]),
        (
            {"executor": "typo", "evaluator": "other"},
            KNOWN,
            ["executor: No model is called typo.", "evaluator: No model is called other."],
        ),
        ({"evaluator": "typo", "planner": "typo"}, KNOWN, ["evaluator: No model is called typo."]),
        ({"executor": [KNOWN, "a", "a"]}, KNOWN, ["executor: No model is called a."]),
        ({}, "typo", ["executor: No model is called typo."]),
        ({"evaluator": "typo"}, "typo", ["evaluator: No model is called typo."]),
    ],
    ids=["executor", "two", "named twice", "in a chain", "the default", "said before filled in"],
)
async def test_every_unknown_model_is_told_once_for_the_role_that_names_it(
    models: Mapping[str, object], default: str, told: list[str]
) -> None:
    spec = RUN_SPEC.validate_python({"kind": "agent", "goal": "g", "models": models})
    with pytest.raises(InvalidInput) as caught:
        await resolver(default).resolve(spec)
    lines = [line.strip() for line in caught.value.message.splitlines()[1:]]
    assert lines == [f"models.{line}" for line in told]


async def test_a_known_model_is_filled_in() -> None:
    spec = await resolver().resolve(RUN_SPEC.validate_python({"kind": "agent", "goal": "g"}))
    assert spec.models.executor == KNOWN
    assert spec.tools.access == "readonly"


@pytest.mark.parametrize(
    ("assumed", "priced", "served", "told"),
    [
        ("typo", True, None, "No model is called typo."),
        (KNOWN, False, None, "the price of 'claude-known' is unknown too"),
        (KNOWN, False, ServedModels(names=("other",)), "the price of 'claude-known' is unknown"),
        (KNOWN, False, ServedModels(names=(KNOWN,)), None),
        (KNOWN, True, None, None),
    ],
    ids=["unknown", "priceless", "priceless there too", "in the workers' sheet", "priced"],
)
async def test_a_stand_in_for_unknown_prices_has_a_price(
    assumed: str, served: ServedModels | None, told: str | None, *, priced: bool
) -> None:
    class Few(FewModels):
        async def card(self, model: str) -> ModelProfile:
            return ModelProfile(name=model, price=FREE if priced else None)

    resolving = Resolver(Few(), KNOWN, NoTools(), loops=LOOPS, now=lambda: NOW)  # type: ignore[arg-type]
    given = {"kind": "agent", "goal": "g", "budget": {"unknown_price": {"assume": assumed}}}
    spec, known = RUN_SPEC.validate_python(given), Served(models=served) if served else None
    if told is None:
        assert (await resolving.resolve(spec, known)).budget == spec.budget
        return
    with pytest.raises(InvalidInput) as refused:
        await resolving.resolve(spec, known)
    ((place, words),) = refused.value.problems
    assert place == "budget.unknown_price.assume"
    assert words.startswith(told)


async def test_settings_of_an_unknown_role_are_told_with_the_nearest() -> None:
    settings = {"evaluators": {"max_output_tokens": 100}}
    given = {"kind": "agent", "goal": "g", "models": {"settings": settings}}
    with pytest.raises(InvalidInput, match=r"settings\.evaluators: .*did you mean evaluator\?"):
        await resolver().resolve(RUN_SPEC.validate_python(given))


async def test_settings_that_the_first_model_cannot_follow_are_told_with_what_it_takes() -> None:
    class Few(FewModels):
        async def card(self, model: str) -> ModelProfile:
            return ModelProfile(name=model, price=None, thinking=("off", "tokens"), sampling=False)

    settings = {"executor": {"thinking": "adaptive"}, "evaluator": {"temperature": 0.1}}
    given = {"kind": "agent", "goal": "g", "models": {"settings": settings}}
    resolving = Resolver(Few(), KNOWN, NoTools(), loops=LOOPS, now=lambda: NOW)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as caught:
        await resolving.resolve(RUN_SPEC.validate_python(given))
    lines = [line.strip() for line in caught.value.message.splitlines()[1:]]
    assert lines == [
        "models.settings.executor.thinking: claude-known does not take 'adaptive'; "
        "it takes `off`, a number of tokens",
        "models.settings.evaluator.temperature: claude-known takes no temperature; leave it out",
    ]


async def test_an_unknown_judge_is_told_with_its_place() -> None:
    judge = {"name": "tone", "evaluator": {"judge": {"model": "typo"}}}
    given = {"kind": "refine", "goal": "g", "rubric": [judge]}
    with pytest.raises(InvalidInput, match=r"rubric\[0\].evaluator.judge.model: No model"):
        await resolver().resolve(RUN_SPEC.validate_python(given))


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        (
            {"check": "regex", "pattern": "(?=a)"},
            "rubric[0].evaluator.pattern: found the pattern '(?=a)' cannot be used",
        ),
        (
            {"check": "json_schema", "schema": {"type": "nonsense"}},
            "rubric[0].evaluator.schema: found the JSON schema is not valid",
        ),
        (
            {"check": "telepathy"},
            'rubric[0].evaluator.check: found "telepathy"; allowed: one of contains, regex',
        ),
    ],
    ids=["pattern", "schema", "check"],
)
async def test_checks_that_cannot_be_used_are_refused(evaluator: object, said: str) -> None:
    given = {"kind": "refine", "goal": "g", "rubric": [{"name": "a", "evaluator": evaluator}]}
    checking = Resolver(
        FewModels(),  # type: ignore[arg-type]
        KNOWN,
        NoTools(),  # type: ignore[arg-type]
        loops=LOOPS,
        now=lambda: NOW,
        rubric_problems=check_problems,
    )
    with pytest.raises(InvalidInput) as caught:
        await checking.resolve(RUN_SPEC.validate_python(given))
    assert said in caught.value.message


PAST = {"type": "time_bound", "until": "2029-12-31T23:00:00Z"}
LATER = {"type": "time_bound", "until": "2030-01-01T01:00:00+02:00"}
TWICE = {"type": "max_iterations", "limit": 2}


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        (PAST, ".until"),
        (LATER, ".until"),  # 23:00 of the day before, at Greenwich
        (
            {"type": "combined", "operator": "or", "conditions": [TWICE, PAST]},
            ".conditions[1].until",
        ),
        ({"type": "time_bound", "until": "2030-01-01T00:00:01Z"}, None),
        ({"type": "combined", "operator": "and", "conditions": [TWICE, PAST]}, None),
    ],
    ids=["past", "past-elsewhere", "in-or", "future", "in-and"],
)
async def test_an_end_in_the_past_is_refused_where_it_ends_the_run(
    tree: object, path: str | None
) -> None:
    rubric = [{"name": "a", "evaluator": {"check": "length", "unit": "words", "max": 5}}]
    given = {"kind": "refine", "goal": "g", "rubric": rubric, "refine": {"termination": tree}}
    spec = RUN_SPEC.validate_python(given)
    if path is None:
        assert (await resolver().resolve(spec)).kind == "refine"
        return
    with pytest.raises(InvalidInput) as caught:
        await resolver().resolve(spec)
    assert f"refine.termination{path}: found " in caught.value.message
    assert "a moment in the future, as it is 2030-01-01T00:00:00Z now" in caught.value.message


async def test_an_end_in_the_past_of_a_loop_is_refused() -> None:
    spec = RUN_SPEC.validate_python(task(team(stage("write"), condition=PAST)))
    with pytest.raises(InvalidInput, match=r"team\.termination_condition\.until: found 2029-12-31"):
        await resolver().resolve(spec)


ROLES = {"kind": "roles", "goal": "Fix {{what}}."}


async def test_a_loop_is_snapshotted_with_the_files_of_its_roles() -> None:
    given = {"kind": "roles", "goal": "g", "roles": {"definition": "harness"}}
    spec = await resolver().resolve(RUN_SPEC.validate_python(given))
    assert isinstance(spec, RolesSpec)
    assert spec.roles.snapshot is not None
    roles = spec.roles.snapshot.definition.roles
    assert [(role.name, role.access) for role in roles] == [
        ("plan", "readonly"),
        ("code", "full"),
        ("review", "readonly"),
    ]
    assert all("You are" in role.system for role in roles)
    assert spec.tools.access == "full"
    assert await resolver().resolve(spec) == spec


async def test_a_fork_with_another_loop_or_parameter_is_resolved_anew() -> None:
    roles = {"definition": "research", "parameters": {"output_format": "a table"}}
    given = {"kind": "roles", "goal": "g", "roles": roles}
    spec = await resolver().resolve(RUN_SPEC.validate_python(given))
    assert isinstance(spec, RolesSpec)
    changes = (
        {"parameters": {"output_format": "a list"}},
        {"definition": "harness", "parameters": {}},
    )
    for change, said in zip(changes, ("as a list", "Carry out the plan"), strict=True):
        settings = spec.roles.model_copy(update=change)
        forked = await resolver().resolve(spec.model_copy(update={"roles": settings}))
        assert isinstance(forked, RolesSpec)
        assert forked.roles.snapshot is not None
        assert said in forked.roles.snapshot.definition.roles[1].prompt


async def test_every_problem_of_a_loop_is_named_with_the_others() -> None:
    roles = {"definition": "research", "parameters": {"output_from": "table"}}
    given = {**ROLES, "roles": roles, "models": {"executor": "typo"}}
    with pytest.raises(InvalidInput) as caught:
        await resolver().resolve(RUN_SPEC.validate_python(given))
    said = caught.value.message
    assert "No model is called typo." in said
    assert "roles.parameters.output_from: found the parameter output_from" in said
    assert "Did you mean output_format?" in said
    assert "goal: found the placeholder {{what}}; allowed: one of output_format." in said


async def test_an_unknown_loop_is_refused_with_the_nearest_name() -> None:
    given = {"kind": "roles", "goal": "g", "roles": {"definition": "harnes"}}
    with pytest.raises(InvalidInput) as caught:
        await resolver().resolve(RUN_SPEC.validate_python(given))
    assert 'roles.definition: found "harnes"' in caught.value.message
    assert "Did you mean harness?" in caught.value.message


async def test_models_of_loops_inside_a_loop_are_checked_before_anything_starts() -> None:
    below = LoopSnapshot.model_validate(team(stage("inner", model="typo"), stage("last")))
    nested = {"name": "build", "loop": {"definition": "team"}, "prompt": "Build."}
    given = task(team(nested, stage("reviewer"), nested={"build": below}))
    with pytest.raises(InvalidInput) as caught:
        await resolver().resolve(RUN_SPEC.validate_python(given))
    assert "team.roles.inner.model: No model is called typo." in caught.value.message


@pytest.mark.parametrize(
    "tools", [{"access": "full"}, {"allow": ["fs.read"]}], ids=["level", "tool"]
)
async def test_without_a_key_it_is_said_that_there_is_none(tools: dict[str, object]) -> None:
    wanted = AgentSpec.model_validate({"kind": "agent", "goal": "g", "tools": tools})
    with pytest.raises(InvalidInput) as caught:
        await resolver(LOCAL_NAME).resolve(wanted)
    assert "export ANTHROPIC_API_KEY" in caught.value.cure
    named = AgentSpec.model_validate(
        {"kind": "agent", "goal": "g", "tools": tools, "models": {"executor": LOCAL_NAME}}
    )
    with pytest.raises(InvalidInput) as caught:
        await resolver(KNOWN).resolve(named)
    assert "ANTHROPIC_API_KEY" not in caught.value.cure


class Embedded(FewModels):
    """The embedded model alone, which writes text and no more."""

    def resolve(self, model: str) -> "Embedded":
        assert model == LOCAL_NAME
        return self

    async def card(self, model: str) -> ModelProfile:
        return ModelProfile(name=model, price=None, tools=False, judges=False)


@pytest.mark.parametrize(
    ("task", "keyless"),
    [
        pytest.param({"kind": "refine", "rubric": JUDGED}, True, id="a judge"),
        pytest.param({"kind": "agent", "tools": {"allow": ["nope"]}}, False, id="a typo of a tool"),
        pytest.param({"kind": "agent", "output_schema": {"type": 3}}, False, id="a schema"),
        pytest.param(
            {"kind": "agent", "models": {"settings": {"exekutor": {"effort": "low"}}}},
            False,
            id="a typo of a role",
        ),
    ],
)
async def test_the_missing_key_is_told_only_where_a_key_would_help(
    task: dict[str, object], keyless: bool
) -> None:
    resolving = Resolver(Embedded(), LOCAL_NAME, NoTools(), loops=LOOPS, now=lambda: NOW)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as caught:
        await resolving.resolve(RUN_SPEC.validate_python({"goal": "g", **task}))
    assert ("export ANTHROPIC_API_KEY" in caught.value.cure) is keyless
