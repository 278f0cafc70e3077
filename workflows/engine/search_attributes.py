"""Writing search attributes; values arrive clipped from the domain."""

from collections.abc import Mapping

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from perdure.domain.foundation.names import SEARCH_ATTRIBUTES

AnyUpdate = SearchAttributeUpdate[str] | SearchAttributeUpdate[int] | SearchAttributeUpdate[float]


def upsert(values: Mapping[str, str | int | float | None]) -> None:
    """Upsert the named attributes; None unsets one."""
    workflow.upsert_search_attributes(
        [_update(name, value) for name, value in sorted(values.items())]
    )


def _update(name: str, value: str | float | None) -> AnyUpdate:
    match SEARCH_ATTRIBUTES[name]:
        case "Keyword":
            words = SearchAttributeKey.for_keyword(name)
            return words.value_unset() if value is None else words.value_set(str(value))
        case "Int":
            whole = SearchAttributeKey.for_int(name)
            return whole.value_unset() if value is None else whole.value_set(int(value))
        case "Double":
            number = SearchAttributeKey.for_float(name)
            return number.value_unset() if value is None else number.value_set(float(value))
