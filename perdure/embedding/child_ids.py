"""Ids of loops that a workflow awaits without naming them."""

from temporalio import workflow

from perdure.domain.foundation.names import is_usable_id, usable_id

PATCH = "perdure-usable-loop-id"


def id_below(suffix: str) -> str:
    """The current workflow's id with `suffix` at its end, made fit for a run if it is not."""
    plain = workflow.info().workflow_id + suffix
    # Behind a patch: a workflow whose loop was refused for such an id may be open, and must replay.
    if is_usable_id(plain) or not workflow.patched(PATCH):
        return plain
    return usable_id(workflow.info().workflow_id, suffix)
