"""What a run of each arm and of the judge may spend, by limits and prices."""

from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import JsonValue

from perdure.adapters.definitions.store import LoopFiles
from perdure.adapters.stores.clock import utc_now
from perdure.composition.resolve_spec import Plugins, Resolver
from perdure.domain.experiments.plan import Entry, Plan
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.bookkeeping_messages import Served, ServedPlugins
from perdure.domain.specs import Spec
from perdure.interfaces.experiments.bounds import bounded, check_added
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

PER_MILLION = {"small": 1, "dear": 100}
TASK: dict[str, JsonValue] = {
    "kind": "agent",
    "goal": "Write.",
    "context": {"about": None},
    "models": {"executor": "small"},
    "budget": {"cost_usd": 0.2, "tokens": 20_000},
}


REFUSED = "Refused."


class Models:
    async def card(self, model: str) -> ModelProfile:
        price = Price(input_per_million=Decimal(0), output_per_million=Decimal(PER_MILLION[model]))
        return ModelProfile(name=model, window=200_000, max_output=20_000, price=price)


def loop(name: str, *stages: JsonValue, nested: JsonValue = None) -> dict[str, JsonValue]:
    ends: JsonValue = {"type": "iteration_bound", "iterations": 2}
    definition: JsonValue = {"name": name, "roles": list(stages), "termination_condition": ends}
    return {"definition": definition, "version": "1", "nested": nested or {}}


INNER = loop("inner", {"name": "try", "prompt": "Try.", "model": ["small", "dear"]})
STAGES: dict[str, dict[str, JsonValue]] = {
    "own": loop("own", {"name": "write", "prompt": "Write.", "model": "dear"}),
    "nested": loop(
        "nested", {"name": "team", "prompt": "p", "loop": "inner"}, nested={"team": INNER}
    ),
    "cheap": loop("cheap", {"name": "write", "prompt": "Write."}),
}


async def with_stages(spec: Spec) -> Spec:
    if spec.goal == REFUSED:
        raise InvalidInput("The run cannot start.")
    if not isinstance(spec, RolesSpec):
        return spec
    if spec.roles.definition not in STAGES:
        raise InvalidInput("There is no such loop.")
    snapshot = LoopSnapshot.model_validate(STAGES[spec.roles.definition])
    roles = spec.roles.model_copy(update={"snapshot": snapshot})
    return spec.model_copy(update={"roles": roles})


async def plan_of(*changes: JsonValue, budget: JsonValue = None, task: JsonValue = TASK) -> Plan:
    inputs: list[JsonValue] = [{"about": "a", "set": change} for change in changes]
    made = experiment_of(
        {
            "task": task,
            "inputs": inputs,
            "arms": {"a": {}},
            "score": {"judge": "Good?", "model": "small"},
            "budget": budget,
        },
        surroundings=Surroundings(folder=None, judges=lambda _: True),
    )
    return await bounded(
        made.plan, made.entries, Models(), check=with_stages, default_model="small"
    )


async def test_prices_bound_a_run_and_its_judge() -> None:
    plan = await plan_of({})
    assert plan.held(plan.arms[0]).cost_usd == Decimal("0.02") + Decimal("0.1")


@pytest.mark.parametrize(
    ("change", "usd", "tokens"),
    [
        ({"budget": {"tokens": 60_000}}, "0.06", 60_000),
        ({"budget": {"cost_usd": 50}}, "0.02", 20_000),
        ({"models": {"executor": "dear"}}, "0.2", 20_000),
        ({"budget": {"cost_usd": 50, "tokens": 9_000_000}}, "9", 9_000_000),
    ],
)
async def test_an_input_that_may_spend_more_counts_for_its_arm(
    change: JsonValue, usd: str, tokens: int
) -> None:
    (arm,) = (await plan_of({}, change)).arms
    assert (arm.most_usd, arm.most_tokens) == (Decimal(usd), tokens)


def refined(judge: dict[str, JsonValue]) -> dict[str, JsonValue]:
    item: JsonValue = {"name": "good", "hint": "Is it good?", "evaluator": {"judge": judge}}
    return {**TASK, "kind": "refine", "rubric": [item]}


def staged(name: str) -> dict[str, JsonValue]:
    return {**TASK, "kind": "roles", "roles": {"definition": name}}


@pytest.mark.parametrize(
    ("task", "usd"),
    [
        (refined({}), "0.02"),
        (refined({"model": "dear"}), "0.2"),
        (staged("cheap"), "0.02"),
        (staged("own"), "0.2"),
        (staged("nested"), "0.2"),
    ],
    ids=["the run's judge", "a named judge", "executor", "a stage's model", "an inner fallback"],
)
async def test_models_of_judges_and_stages_count(task: JsonValue, usd: str) -> None:
    (arm,) = (await plan_of({}, task=task)).arms
    assert arm.most_usd == Decimal(usd)


async def test_a_loop_that_cannot_run_is_refused_with_its_arm() -> None:
    with pytest.raises(InvalidInput, match=r"arms\.a: There is no such loop"):
        await plan_of({}, task=staged("other"))


async def test_an_arm_whose_runs_would_be_refused_is_refused_before_any_is_paid_for() -> None:
    with pytest.raises(InvalidInput, match=r"arms\.a: The run cannot start"):
        await plan_of({}, {"goal": REFUSED})


async def test_a_budget_below_a_run_with_its_judge_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one run of a with its judge may spend"):
        await plan_of({}, budget={"cost_usd": 0.1})


async def test_an_added_input_may_not_spend_more_than_is_set_aside() -> None:
    plan = await plan_of({})

    async def add(**fields: JsonValue) -> None:
        entry = Entry(name="late", context={"about": "b"}, fields=fields)
        await check_added(plan, [entry], Models(), check=with_stages, default_model="small")

    await add()
    await add(goal="Write more.", budget={"cost_usd": 1})
    limits: list[JsonValue] = [{"tokens": 30_000}, {"tokens": 0}]
    for one in limits:
        with pytest.raises(InvalidInput, match=r"inputs\.late: found .* the experiment sets aside"):
            await add(budget=one)
    with pytest.raises(InvalidInput, match="cost_usd"):
        await add(models={"executor": "dear"})


async def test_an_added_input_that_sets_nothing_may_not_exceed_what_others_set_lower() -> None:
    low: JsonValue = {"budget": {"cost_usd": 0.1, "tokens": 1_000}}
    given: JsonValue = {
        "task": TASK,
        "inputs": [{"about": "a", "set": low}],
        "arms": {"a": {}},
        "score": {"check": "contains", "all": ["x"]},
    }
    submitted = experiment_of(given, surroundings=Surroundings(folder=None))
    plan = await bounded(
        submitted.plan, submitted.entries, Models(), check=with_stages, default_model="small"
    )
    assert plan.arms[0].most_tokens == 1_000
    entry = Entry(name="late", context={"about": "b"})
    with pytest.raises(InvalidInput, match=r"inputs\.late: found 0.02 for cost_usd"):
        await check_added(plan, [entry], Models(), check=with_stages, default_model="small")


class NoModels:
    """Knows none; what scores needs none either."""

    def resolve(self, model: str) -> Models:
        raise InvalidInput(f"No model is called {model}.")


class NoTools:
    async def catalog(self) -> tuple[()]:
        return ()


@pytest.mark.parametrize("where", ["here", "at a worker", "nowhere"])
async def test_a_score_by_a_check_that_nobody_has_is_refused(where: str) -> None:
    """Every run would be paid for, and no output scored."""
    known = frozenset({"acme.polite"})
    plugins = Plugins(checks=known if where == "here" else frozenset())
    brought = ServedPlugins(checks=tuple(known) if where == "at a worker" else ())
    loops = LoopFiles(Path("/nowhere"))
    resolver = Resolver(NoModels(), "none", NoTools(), plugins, loops=loops, now=utc_now)  # type: ignore[arg-type]
    made = experiment_of(
        {
            "task": TASK,
            "inputs": [{"about": "a"}],
            "score": {"check": "acme.polite"},
            "arms": {"a": {}},
        },
        surroundings=Surroundings(folder=None),
    )

    async def check(spec: Spec) -> Spec:
        if spec.kind == "agent":  # a trial, whose model is none of what is looked at here
            return spec
        return await resolver.resolve(spec, Served(plugins=brought))

    bounding = bounded(made.plan, made.entries, Models(), check=check, default_model="small")
    if where == "nowhere":
        with pytest.raises(InvalidInput, match=r'^score: found "acme.polite"; allowed: one of'):
            await bounding
    else:
        assert (await bounding).scoring == made.plan.scoring
