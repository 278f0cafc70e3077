"""Termination trees from untyped data, as the fields of specifications read them."""

from pydantic import TypeAdapter, ValidationError

from perdure.domain.evaluation.termination_conditions import FIELDS, ROOT, Condition
from perdure.domain.foundation.problems import Problem, problems_of

_ADAPTER: TypeAdapter[Condition] = TypeAdapter(Condition)


def read_condition(value: object) -> Condition | tuple[Problem, ...]:
    """A condition, or every problem with it, each with its path."""
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        return problems_of(error, value, root=ROOT, names=FIELDS)
