"""`activity_check`: an activity of your own becomes a check that rubrics can name.

It runs on the queue of your worker, with your options, and appears in the loop's history under its
own name. A plain function needs none of this: see `perdure.check`.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from temporalio.common import RetryPolicy

from perdure.embedding.activity_targets import ONCE, Served, activity_target, placed_target
from perdure.extending.check_decorator import CheckActivity, CustomCheck, named_check


def activity_check(
    function: Callable[..., object],
    *,
    name: str | None = None,
    task_queue: str | None = None,
    start_to_close_timeout: timedelta = timedelta(seconds=30),
    schedule_to_close_timeout: timedelta | None = None,
    heartbeat_timeout: timedelta | None = None,
    retry_policy: RetryPolicy = ONCE,
) -> CustomCheck:
    """Make an activity a check; its first parameter takes the output, the others those of rubrics.

    It returns what a function with `@check` returns: True or False, a number from 0 to 1, such a
    number with words that say what is missing, or a `CheckResult`. If it fails, the output stays
    unscored.

    Args:
        function: with `@activity.defn`; a method of an object too.
        name: what rubrics call it; the activity's type, in lower case, when absent.
        task_queue: where it runs; None is the queue of the worker that has it.
        start_to_close_timeout: of one attempt.
        schedule_to_close_timeout: of all attempts, and the wait for a worker; None for no limit.
        heartbeat_timeout: after which a silent attempt counts as lost.
        retry_policy: by default it runs once.

    Raises:
        InvalidInput: it is no activity, a parameter has no annotation, or the name is malformed.
    """
    target = activity_target(
        function,
        instead="perdure.check",
        task_queue=task_queue,
        schedule_to_close_timeout=schedule_to_close_timeout,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=retry_policy,
    )
    made = named_check(function, name=name or target.type.lower())
    return replace(made, activity=CheckActivity(target, start_to_close_timeout.total_seconds()))


def placed_check(made: CustomCheck, served: Served) -> CustomCheck:
    """The check with the queue of the worker that has its activity; other checks are unchanged.

    Raises:
        InvalidInput: no worker has the activity.
    """
    if made.activity is None:
        return made
    known = placed_target(
        made.activity.target, served, what=f"the check {made.name}", maker=activity_check.__name__
    )
    return replace(made, activity=replace(made.activity, target=known))
