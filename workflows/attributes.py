"""Writing search attributes; values arrive clipped from the domain."""

from collections.abc import Mapping

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from perdure.domain.names import SEARCH_ATTRIBUTES


def upsert(values: Mapping[str, object]) -> None:
    """Upsert the named attributes; None unsets one."""
    updates: list[SearchAttributeUpdate[object]] = []
    for name, value in sorted(values.items()):
        key = _key(name)
        updates.append(key.value_unset() if value is None else key.value_set(value))
    workflow.upsert_search_attributes(updates)


def _key(name: str) -> SearchAttributeKey[object]:
    match SEARCH_ATTRIBUTES[name]:
        case "Keyword":
            return SearchAttributeKey.for_keyword(name)  # type: ignore[return-value]
        case "Int":
            return SearchAttributeKey.for_int(name)  # type: ignore[return-value]
        case "Double":
            return SearchAttributeKey.for_float(name)  # type: ignore[return-value]
