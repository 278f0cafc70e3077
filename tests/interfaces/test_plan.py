"""What a run would do and could cost at most."""

from decimal import Decimal

import pytest

from perdure.domain.models import ModelCard, Price
from perdure.domain.run import RUN_SPEC
from perdure.interfaces.gateway.facts import QueueState, Spec
from perdure.interfaces.plan import iteration_limit, plan_run, worst_case

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))
RUBRIC = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
JUDGED = [*RUBRIC, {"name": "tone", "evaluator": {"judge": {}}}]


def spec(**fields: object) -> Spec:
    return RUN_SPEC.validate_python({"kind": "refine", "goal": "g", "rubric": RUBRIC, **fields})


def card(price: Price | None, **facts: object) -> ModelCard:
    return ModelCard.model_validate({"name": "m", "price": price, **facts})


@pytest.mark.parametrize(
    ("budget", "price", "told"),
    [
        ({}, PRICE, "2.00 USD: no call starts that does not fit"),
        ({"cost_usd": 0}, PRICE, "3.00 USD, if all 200,000 tokens were written by m."),
        ({"cost_usd": 0, "tokens": 0}, PRICE, "Unlimited"),
        ({}, None, "will not call it"),
        ({"unknown_price": "unverified"}, None, "Unknown: the model has no known price."),
        ({}, FREE, "Nothing: this model costs no money."),
    ],
    ids=["limited", "by tokens", "unlimited", "blocked", "unverified", "free"],
)
def test_worst_case(budget: dict[str, object], price: Price | None, told: str) -> None:
    assert told in worst_case(spec(budget=budget), card(price)).sentence


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (spec(), 3),
        (spec(refine={"max_iterations": 7}), 7),
        (spec(refine={"max_iterations": 7}, budget={"iterations": 2}), 2),
        (RUN_SPEC.validate_python({"kind": "agent", "goal": "g"}), 50),
    ],
    ids=["default", "own", "budget", "agent"],
)
def test_iteration_limit(given: Spec, limit: int) -> None:
    assert iteration_limit(given) == limit


def test_a_plan_names_models_by_role_and_warns() -> None:
    small = card(FREE, tools=False, judges=False)
    plan = plan_run(
        spec(rubric=JUDGED, models={"executor": ["m", "n"], "planner": "p"}, refine={"plan": "on"}),
        cards={"m": small},
        queues=(QueueState(queue="q", serves="loops", ready=True),),
        default_model="m",
        warnings=("first",),
    )
    assert [planned.role for planned in plan.models] == ["executor", "planner", "evaluator"]
    assert plan.models[0].chain == ("m", "n")
    assert plan.steps == ("recall", "plan", "execute", "evaluate", "decide", "refine")
    assert plan.judged == ("tone",)
    assert plan.ready
    assert plan.warnings == ("first", "m does not judge: checks alone decide.")


def test_a_missing_worker_makes_it_not_ready() -> None:
    queues = (
        QueueState(queue="a", serves="loops", ready=True),
        QueueState(queue="b", serves="models", ready=False),
    )
    plan = plan_run(spec(), cards={}, queues=queues, default_model="m")
    assert not plan.ready
