"""Parameters that commands share; `--budget` takes an amount in USD, or any limit by name."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import JsonValue

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import did_you_mean
from perdure.interfaces.cli.session import Session
from perdure.strict_yaml import parse

# Only the kinds that can be started; ids and filters know more kinds.
Kind = Literal["agent", "refine", "roles", "delegation"]
Given = Annotated[Session, Parameter(parse=False)]
OneRun = Annotated[str, Parameter(name="ID")]
Plugins = Annotated[tuple[str, ...], Parameter(name="--plugin", negative="")]
Ids = Annotated[str, Parameter(name="ID")]
MOST_LISTED = 1_000_000
Limit = Annotated[int, Parameter(validator=Number(gte=1, lte=MOST_LISTED))]


Limits = Annotated[tuple[str, ...], Parameter(name="--budget", negative="")]
CURE = "Write an amount in USD, as --budget 3, or a limit by its name, as --budget tokens=50000."


def limits_of(items: Sequence[str]) -> dict[str, JsonValue]:
    """The limits given by flags, as fields of a budget.

    Raises:
        InvalidInput: one is neither an amount nor a known limit with a value.
    """
    return dict(_limit(item.strip()) for item in items)


def _limit(item: str) -> tuple[str, JsonValue]:
    name, found, value = item.partition("=")
    name, value = (name.strip(), value.strip()) if found else ("cost_usd", name.strip())
    if name not in BudgetLimits.model_fields:
        hint = did_you_mean(name, BudgetLimits.model_fields)
        raise InvalidInput(f"--budget {item}: there is no limit {name!r}.{hint}", cure=CURE)
    if name != "cost_usd":
        return name, _plain(item, value)
    try:
        # As text, since a number of JSON would be a float before it is a decimal again.
        return name, str(Decimal(value.removeprefix("$")))
    except InvalidOperation:
        if value in {"null", "none"}:
            return name, None
        raise InvalidInput(f"--budget {item}: {value!r} is not an amount.", cure=CURE) from None


def _plain(item: str, value: str) -> JsonValue:
    try:
        loaded = parse(value, named=item)
    except InvalidInput:
        loaded = value
    if not value or isinstance(loaded, dict | list):
        raise InvalidInput(f"--budget {item}: there is no value after `=`.", cure=CURE)
    return loaded
