"""What a run is doing now, in one sentence."""

from datetime import datetime

from perdure.domain.run.status import RunStatus

_WAITS = {
    "tool_approval": "It waits until somebody approves or denies a tool call.",
    "escalation": "It waits for a person: go on, accept the best result, or stop.",
    "budget": "It waits because its budget is used up: raise it, or let it end.",
    "review": "It waits for a person's scores of the draft.",
    "question": "It waits for the answer to a question.",
    "blocked": "It waits because something that it needs is missing.",
}
_PHASES = {
    "starting": "It is being opened",
    "recalling": "It looks up what earlier runs have learned",
    "planning": "It makes a plan",
    "executing": "It works on the result",
    "evaluating": "It judges the result",
    "deciding": "It decides how to go on",
    "refining": "It turns the findings into the next task",
    "staging": "Its stages are at work",
    "managing": "Its manager decides who does what",
    "working": "Its workers are at work",
    "wrapping_up": "It puts the best result together",
}


def now_sentence(status: RunStatus) -> str:
    """The sentence for an open run."""
    if status.stop == "now":
        return "It is being stopped: what it does now is cancelled."
    if status.stop == "graceful":
        return "It was told to stop, and ends with its best result after the step in flight."
    if status.lifecycle == "paused":
        return "It is paused, and goes on when somebody resumes it."
    if status.lifecycle == "waiting":
        return _waiting(status)
    doing = _PHASES.get(status.phase, f"Its phase is {status.phase.replace('_', ' ')}")
    return f"{doing}{_place(status)}."


def elapsed(status: RunStatus, now: datetime) -> float:
    """Seconds from the start to `now`: the run's own clock stands still between its steps."""
    if status.started_at is None or status.phase == "ended":
        return status.elapsed_s
    return max(status.elapsed_s, (now - status.started_at).total_seconds())


def _waiting(status: RunStatus) -> str:
    told = _WAITS.get(status.blocked_on or "")
    if told is None:
        below = sorted({question.run for question in status.questions})
        where = f" of the run {below[0]} below it" if below else ""
        return f"It waits for an answer to a question{where}."
    return told


def _place(status: RunStatus) -> str:
    if status.stage is not None:
        stage = status.stage
        again = f", attempt {stage.attempt}" if stage.attempt > 1 else ""
        return f", in stage {stage.index} of {stage.of} ({stage.name}{again})"
    if not status.iteration:
        return ""
    most = f" of at most {status.iteration_limit}" if status.iteration_limit else ""
    return f", in iteration {status.iteration}{most}"
