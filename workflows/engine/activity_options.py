"""Timeouts, queues and summaries per kind of activity; who is asked again is in the policies.

Everything about attempts comes from `perdure.domain.foundation.retry_policies`.
"""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig

from perdure.domain.foundation.retry_policies import (
    MODEL_SLACK_S,
    POLICIES,
    STORE_PATIENCE,
    StepKind,
)
from perdure.domain.run.spec import Placement

# A value that is too large will not heal by doing the work, and paying for it, again. Our own
# errors say themselves whether they are retried: naming them here would cost bytes in every step.
NEVER_RETRIED = ["PayloadsTooLarge"]
TOOL_SLACK_S = 15.0
RECOVERY_S = 30.0
SUMMARY_CHARACTERS = 180
NOTICE_S = 60.0
VERIFICATION_S = 3_600.0


def model_call(site: Placement, *, summary: str, role: str, activity_id: str) -> ActivityConfig:
    """A model call: long, streamed, heartbeating; the recovery model has half a minute."""
    seconds = RECOVERY_S if role == "recovery" else site.timing.model_call
    return _config(
        site,
        "model",
        queue=site.models,
        activity_id=activity_id,
        summary=summary,
        seconds=seconds + MODEL_SLACK_S,
    )


def tool_call(
    site: Placement, *, summary: str, timeout_s: float, idempotent: bool, activity_id: str
) -> ActivityConfig:
    """A tool call: repeated after a lost attempt only where the tool says that is harmless."""
    return _config(
        site,
        "repeatable_tool" if idempotent else "tool",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=timeout_s + TOOL_SLACK_S,
    )


def workspace_step(site: Placement, *, summary: str, activity_id: str) -> ActivityConfig:
    """Preparing, checking or storing what lies in the working folder."""
    return _config(
        site,
        "workspace",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=site.timing.model_call,
    )


def verification(site: Placement, *, summary: str, activity_id: str) -> ActivityConfig:
    """Programs on a snapshot: each has its own time limit, and all of them this one."""
    return _config(
        site,
        "workspace",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=max(site.timing.model_call, VERIFICATION_S),
    )


def store_step(site: Placement, *, summary: str, activity_id: str | None = None) -> ActivityConfig:
    """Bookkeeping: it is made again until its store is there.

    Each attempt is short: one that the server believes started, and nobody runs, is noticed only
    when its time is up.
    """
    return _config(
        site,
        "bookkeeping",
        queue=site.loops,
        activity_id=activity_id,
        summary=summary,
        seconds=site.timing.store,
    )


def notice(site: Placement, *, summary: str, activity_id: str) -> ActivityConfig:
    """A notice to people: a deaf channel must not hold the run."""
    return _config(
        site,
        "notice",
        queue=site.loops,
        activity_id=activity_id,
        summary=summary,
        seconds=NOTICE_S,
    )


def _config(
    site: Placement,
    kind: StepKind,
    *,
    queue: str,
    activity_id: str | None,
    summary: str,
    seconds: float,
) -> ActivityConfig:
    policy = POLICIES[kind]
    limit = timedelta(seconds=seconds)
    config = ActivityConfig(
        task_queue=queue,
        start_to_close_timeout=limit + STORE_PATIENCE if policy.beats else limit,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1),
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=policy.attempts,
            non_retryable_error_types=NEVER_RETRIED,
        ),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary[:SUMMARY_CHARACTERS],
    )
    if activity_id is not None:
        config["activity_id"] = activity_id
    if policy.beats:
        config["heartbeat_timeout"] = timedelta(seconds=site.timing.heartbeat)
    return config
