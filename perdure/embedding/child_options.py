"""How a loop runs as a child of a user's workflow, and what of that is refused."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from temporalio import workflow
from temporalio.common import TypedSearchAttributes
from temporalio.converter import encode_typed_search_attribute_value
from temporalio.exceptions import ApplicationError
from temporalio.workflow import ParentClosePolicy

from perdure.domain.foundation.names import ANSWERED_ABOVE, MEMO_NAMES, is_usable_id, usable_id
from perdure.domain.foundation.problems import format_value

INVALID_TASK = "invalid_task"
MEMO = "child.memo"
ATTRIBUTES = "child.search_attributes"
OF_PERDURE, OF_TEMPORAL = "Perdure", "Temporal"
MADE_WITH = "TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword(…), …)])"

PATCH = "perdure-usable-loop-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """How a loop runs as a child workflow.

    Args:
        task_queue: where a worker of Perdure takes tasks; None is the queue of this workflow, which
            a worker with `PerdurePlugin` serves.
        parent_close_policy: what becomes of the loop when this workflow ends; by default it stops,
            and its best result is in the store.
        memo: values that the loop's workflow has beside those of Perdure, such as a customer's
            number; your client's converter writes them.
        search_attributes: by which the loop is found at the server; each must be registered there.
    """

    task_queue: str | None = None
    parent_close_policy: ParentClosePolicy = ParentClosePolicy.REQUEST_CANCEL
    memo: Mapping[str, object] | None = None
    search_attributes: TypedSearchAttributes | None = None


def memo_of(child: Child, *, answered: bool) -> Mapping[str, object] | None:
    """The memo with which a loop is started.

    Args:
        child: how it runs.
        answered: whether this workflow answers its gates.

    Raises:
        ApplicationError: a name is one of Perdure, or a value cannot be written.
    """
    own = {ANSWERED_ABOVE: True} if answered else {}
    if not child.memo:
        return own or None
    for name, value in cast("Mapping[object, object]", child.memo).items():
        if not isinstance(name, str) or name in MEMO_NAMES:
            taken = ", ".join(sorted(MEMO_NAMES))
            raise refused(
                MEMO, f"found the name {format_value(name)}; Perdure keeps {taken} itself."
            )
        try:
            # Tried here: at the start of the loop it would fail the workflow task again and again.
            workflow.payload_converter().to_payload(value)
        except Exception as error:  # whatever a converter of theirs raises
            raise refused(
                f"{MEMO}[{name!r}]",
                f"found {format_value(value)}, which the converter of the client cannot write: "
                f"{error}",
            ) from error
    return {**child.memo, **own}


def attributes_of(child: Child) -> TypedSearchAttributes | None:
    """The search attributes with which a loop is started.

    Raises:
        ApplicationError: a name is one of Perdure or of the server, or a value is of another type
            than its key. The server would refuse either, at each attempt of the workflow task.
    """
    given = child.search_attributes
    if given is None:
        return None
    if not isinstance(cast("object", given), TypedSearchAttributes):
        raise refused(ATTRIBUTES, f"found {format_value(given)}; allowed: {MADE_WITH}.")
    for pair in given:
        place = f"{ATTRIBUTES}[{pair.key.name!r}]"
        # By the beginning, so that names of later versions cannot meet those of users.
        if pair.key.name.startswith((OF_PERDURE, OF_TEMPORAL)):
            raise refused(
                place, f"names that begin with {OF_PERDURE} or {OF_TEMPORAL} are set by them."
            )
        wanted = pair.key.indexed_value_type.name
        if not _KINDS[pair.key.origin_value_type](pair.value):
            raise refused(place, f"found {format_value(pair.value)}; its key is one of {wanted}.")
        try:
            encode_typed_search_attribute_value(pair.key, pair.value)
        except Exception as error:  # whatever the SDK refuses, as a moment without a time zone
            found = f"found {format_value(pair.value)} ({type(pair.value).__name__})"
            raise refused(place, f"{found}; its key is one of {wanted}: {error}.") from error
    return given


def refused(place: str, words: str) -> ApplicationError:
    """The refusal of a loop before anything is started."""
    return ApplicationError(
        f"{place}: {words} Nothing was started.", type=INVALID_TASK, non_retryable=True
    )


_KINDS: Mapping[type, Callable[[object], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    datetime: lambda value: isinstance(value, datetime),
    # The SDK has this as the type of lists of keywords, without what is in them.
    Sequence: lambda value: _are_texts(value),
}


def _are_texts(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    return all(isinstance(one, str) for one in value)


def id_below(suffix: str) -> str:
    """The current workflow's id with `suffix` at its end, made fit for a run if it is not."""
    plain = workflow.info().workflow_id + suffix
    # Behind a patch: a workflow whose loop was refused for such an id may be open, and must replay.
    if is_usable_id(plain) or not workflow.patched(PATCH):
        return plain
    return usable_id(workflow.info().workflow_id, suffix)
