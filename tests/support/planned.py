"""Tasks, model cards and loops of roles for tests of what a run would do."""

from decimal import Decimal

from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.roles.definition import LoopDefinition, LoopSnapshot
from perdure.domain.specs import RUN_SPEC, Spec

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))
RUBRIC = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
JUDGED = [*RUBRIC, {"name": "tone", "evaluator": {"judge": {}}}]


def spec(**fields: object) -> Spec:
    return RUN_SPEC.validate_python({"kind": "refine", "goal": "g", "rubric": RUBRIC, **fields})


def card(price: Price | None, **facts: object) -> ModelProfile:
    return ModelProfile.model_validate({"name": "m", "price": price, **facts})


def loop(*roles: dict[str, object], condition: dict[str, object], **below: object) -> LoopSnapshot:
    definition = LoopDefinition.model_validate(
        {"name": "team", "roles": roles, "termination_condition": condition}
    )
    return LoopSnapshot.model_validate(
        {"definition": definition, "version": "1", "nested": {**below}}
    )
