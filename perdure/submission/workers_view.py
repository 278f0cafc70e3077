"""A submission as the workers see it: the default model is theirs, not the submitting host's."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from perdure.submission.types import NobodyJudges, Submission, Surroundings

Make = Callable[[Surroundings], Submission]
AskDefault = Callable[[], Awaitable[str | None]]


async def as_workers_see(
    make: Make, surroundings: Surroundings, default_model: AskDefault
) -> Submission:
    """Make a submission, and make it again where it depends on a default that is another there.

    Args:
        make: reads the task.
        surroundings: of this host.
        default_model: asks the workers; None when none says.

    Raises:
        InvalidInput: the task cannot be run, with the workers' default either.
    """
    try:
        submission = make(surroundings)
    except NobodyJudges:
        if (seen := await _seen(surroundings, default_model)) is None:
            raise
        return make(seen)
    if submission.spec.models.executor is not None:
        return submission
    seen = await _seen(surroundings, default_model)
    return submission if seen is None else make(seen)


async def _seen(surroundings: Surroundings, default_model: AskDefault) -> Surroundings | None:
    """The surroundings with the workers' default; None when it is no other."""
    default = await default_model()
    if default is None or default == surroundings.default_model:
        return None
    return replace(surroundings, default_model=default)
