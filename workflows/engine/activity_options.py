"""Timeouts, queues and summaries for each kind of activity.

The number of attempts comes from `perdure.domain.foundation.retry_policies`.
"""

from datetime import timedelta

from temporalio.common import Priority, RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig

from perdure.domain.foundation.names import host_probe_queue
from perdure.domain.foundation.retry_policies import (
    CHECK_S,
    FILE_S,
    MODEL_SLACK_S,
    POLICIES,
    STORE_PATIENCE,
    StepKind,
)
from perdure.domain.run.spec import Placement
from perdure.domain.tools.definitions import ActivityTarget
from perdure.domain.tools.workspaces import HOST_WAIT_S, HostedFolder

# Doing the work again, and paying for it again, makes no value smaller. Our own errors say
# themselves whether they are retried: naming them here would cost bytes in every step.
NEVER_RETRIED = ["PayloadsTooLarge"]
# A worker ends a call at its own limit and says so; the server's limit, which is this much later,
# only ends a call whose worker cannot.
TOOL_SLACK_S = 15.0
RECOVERY_S = 30.0
SUMMARY_CHARACTERS = 180
NOTICE_S = 60.0
VERIFICATION_S = 3_600.0


def model_call(
    site: Placement, *, summary: str, role: str, activity_id: str, queue: str | None = None
) -> ActivityConfig:
    """A model call: long, streamed, with heartbeats. The recovery model has half a minute.

    `queue` is that of a model that is limited in rate.
    """
    # A recovery text comes after every model has failed: a long wait for it would only delay the
    # end.
    seconds = RECOVERY_S if role == "recovery" else site.timing.model_call
    return _config(
        site,
        "model",
        queue=queue or site.models,
        activity_id=activity_id,
        summary=summary,
        seconds=seconds + MODEL_SLACK_S,
    )


def tool_call(
    site: Placement,
    *,
    summary: str,
    timeout_s: float,
    idempotent: bool,
    activity_id: str,
    host: HostedFolder | None = None,
) -> ActivityConfig:
    """A tool call: repeated after a lost attempt only if the tool is idempotent.

    With a `host`, its workers alone have the folder.
    """
    return _config(
        site,
        "repeatable_tool" if idempotent else "tool",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=timeout_s + TOOL_SLACK_S,
        host=host,
    )


def activity_tool(
    target: ActivityTarget, *, summary: str, timeout_s: float, activity_id: str
) -> ActivityConfig:
    """A foreign activity, on the queue and with the options of its owner."""
    longest, beat, whole = target.longest_pause_s, target.heartbeat_s, target.schedule_to_close_s
    return ActivityConfig(
        task_queue=target.queue,
        activity_id=activity_id,
        start_to_close_timeout=timedelta(seconds=timeout_s),
        schedule_to_close_timeout=None if whole is None else timedelta(seconds=whole),
        heartbeat_timeout=None if beat is None else timedelta(seconds=beat),
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=target.first_pause_s),
            backoff_coefficient=target.pause_factor,
            maximum_interval=None if longest is None else timedelta(seconds=longest),
            maximum_attempts=target.attempts,
            non_retryable_error_types=list(target.never_retried),
        ),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary[:SUMMARY_CHARACTERS],
    )


def workspace_step(
    site: Placement, *, summary: str, activity_id: str, host: HostedFolder | None = None
) -> ActivityConfig:
    """A step that prepares, checks or stores the working folder; `host` as for a tool call."""
    return _config(
        site,
        "workspace",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=site.timing.model_call,
        host=host,
    )


def host_probe(site: Placement, host: HostedFolder, *, activity_id: str) -> ActivityConfig:
    """Asks whether a host is there; no answer within seconds means that it is not."""
    return ActivityConfig(
        task_queue=host_probe_queue(host.queue),
        activity_id=activity_id,
        schedule_to_close_timeout=timedelta(seconds=HOST_WAIT_S),
        retry_policy=RetryPolicy(maximum_attempts=1),
        summary="is the host of the working folder there?",
    )


def verification(site: Placement, *, summary: str, activity_id: str) -> ActivityConfig:
    """Programs run on a snapshot. Each has its own time limit; this one holds for all together."""
    return _config(
        site,
        "workspace",
        queue=site.tools,
        activity_id=activity_id,
        summary=summary,
        seconds=max(site.timing.model_call, VERIFICATION_S),
    )


def store_step(site: Placement, *, summary: str, activity_id: str | None = None) -> ActivityConfig:
    """Bookkeeping, retried until the store answers.

    Each attempt is short: if the reply that hands a step to a worker is lost, the server waits for
    the whole time limit before it tries again.
    """
    return _config(
        site,
        "bookkeeping",
        queue=site.loops,
        activity_id=activity_id,
        summary=summary,
        seconds=site.timing.store,
    )


def scoring_step(site: Placement, *, summary: str) -> ActivityConfig:
    """Bookkeeping that also calls a check of the user's, which may take as long as in a loop."""
    return _longer(site, store_step(site, summary=summary), seconds=CHECK_S)


def opening_step(site: Placement, *, activity_id: str, files: int) -> ActivityConfig:
    """Bookkeeping that looks into so many images and PDFs of the task, one after the other."""
    config = store_step(site, activity_id=activity_id, summary="open run")
    return _longer(site, config, seconds=files * FILE_S) if files else config


def notice(site: Placement, *, summary: str, activity_id: str) -> ActivityConfig:
    """A notice to people. A channel that does not answer must not hold up the run."""
    return _config(
        site, "notice", queue=site.loops, activity_id=activity_id, summary=summary, seconds=NOTICE_S
    )


def hook(site: Placement, *, summary: str, timeout_s: float, activity_id: str) -> ActivityConfig:
    """A user's function; `timeout_s` is the limit of one attempt."""
    return _config(
        site, "hook", queue=site.tools, activity_id=activity_id, summary=summary, seconds=timeout_s
    )


def _longer(site: Placement, config: ActivityConfig, *, seconds: float) -> ActivityConfig:
    """Bookkeeping that works for so long besides."""
    config["start_to_close_timeout"] = timedelta(seconds=site.timing.store + seconds)
    # Such an attempt is long, so a lost worker has to show by its heartbeats.
    config["heartbeat_timeout"] = timedelta(seconds=site.timing.heartbeat)
    return config


def _config(
    site: Placement,
    kind: StepKind,
    *,
    queue: str,
    activity_id: str | None,
    summary: str,
    seconds: float,
    host: HostedFolder | None = None,
) -> ActivityConfig:
    policy = POLICIES[kind]
    limit = timedelta(seconds=seconds)
    config = ActivityConfig(
        task_queue=queue,
        # A step that heartbeats waits for an absent store inside its attempt, since a failed
        # attempt would drop the reply in hand. The heartbeat still tells a dead worker within
        # seconds.
        start_to_close_timeout=limit + STORE_PATIENCE if policy.beats else limit,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1),
            maximum_interval=timedelta(seconds=30),
            maximum_attempts=policy.attempts,
            non_retryable_error_types=NEVER_RETRIED,
        ),
        # The report of a cancelled call says what it spent. With TRY_CANCEL the workflow would go
        # on without it, and the budget would count an estimate.
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        # A summary is stored with every scheduled event, and the server refuses long ones.
        summary=summary[:SUMMARY_CHARACTERS],
    )
    if host is not None:
        config["task_queue"] = host.queue
        # Only that host polls the queue. A step that nobody takes in time has not begun, so it may
        # be scheduled elsewhere.
        config["schedule_to_start_timeout"] = timedelta(seconds=host.wait_s)
    # The journal is keyed by execution and activity id. Ids of our own make that key known before
    # the step is scheduled.
    if activity_id is not None:
        config["activity_id"] = activity_id
    if site.turn is not None and site.turn.by_step:
        turn = site.turn
        config["priority"] = Priority(priority_key=turn.priority, fairness_key=turn.fairness)
    if policy.beats:
        config["heartbeat_timeout"] = timedelta(seconds=site.timing.heartbeat)
    return config
