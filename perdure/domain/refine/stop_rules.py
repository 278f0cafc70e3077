"""Where a refine loop stops or goes on: a table of rules, of which the first that applies decides.

`rows_in_force` has the rules in their order, from spent budgets over `regression` to failures; each
rule is a function below. A custom termination tree (`tree`, with `hard_limit` behind it) stands in
for `quality`, `max_iterations`, `repeated`, `degradation` and `little_gain`. With the pattern
`strategies` neither falls nor failures end anything. The best iteration is kept in
`perdure.domain.refine.iteration_rules`. Conditions that a task writes itself are read in
`perdure.domain.evaluation.check_termination`; loops of roles stop in
`perdure.domain.roles.stop_rules`, delegation in `perdure.domain.delegation.stall`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from perdure.domain.evaluation.check_termination import TerminationFacts, check_termination
from perdure.domain.evaluation.outcomes import Outcome, RunEnd, run_end
from perdure.domain.evaluation.trajectory import DEGRADATION_WINDOW, PERFECT, Trajectory
from perdure.domain.refine.spec import RefineSettings
from perdure.domain.turns.records import Decision as DecisionKind

# One failure may be an accident, so the next iteration tries again.
FAILURES_IN_A_ROW = 2
NO_OUTPUT = "no_output"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the loop does next; outcome and reason are set when it ends the run."""

    decision: DecisionKind
    row: str
    explanation: str
    outcome: Outcome | None = None
    reason: str | None = None

    @property
    def ends(self) -> bool:
        return self.outcome is not None


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution or evaluation that failed, with its reason of outcome `failed`.

    `heals` marks a context overflow, which the next iteration meets compacted.
    """

    reason: str
    message: str
    heals: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the table depends on, including the newest iteration.

    Args:
        loop: trajectory, clocks, whether the output came back, verdicts for a custom tree.
        settings: the run's settings.
        exhausted: the code of a spent budget dimension other than time.
        out_of_time: which clock ran out.
        deciding_passed: all deciding dimensions pass.
        items_passed: every dimension passes (pattern `checklist`).
        escalation_asked: a person used `escalate`.
        tool_loop: how far the model repeats tool calls.
        failing_parts: parts of the output that still fail, 0 when it is not taken apart.
        answer_only: why one execution without an evaluation settles the task, None for work.
        failure: why the newest iteration has no score.
        failures_in_a_row: such iterations up to and with the newest.
    """

    loop: TerminationFacts
    settings: RefineSettings
    exhausted: str | None = None
    out_of_time: Literal["active_time", "wall_time"] | None = None
    deciding_passed: bool = False
    items_passed: bool = False
    escalation_asked: bool = False
    tool_loop: Literal["none", "critical", "broken"] = "none"
    failing_parts: int = 0
    answer_only: Literal["read_only", "deterministic"] | None = None
    failure: Failure | None = None
    failures_in_a_row: int = 0

    @property
    def trajectory(self) -> Trajectory:
        """The scores so far."""
        return self.loop.trajectory

    @property
    def is_scored(self) -> bool:
        """Whether the newest iteration has a score."""
        return self.trajectory.current is not None

    @property
    def enough_iterations(self) -> bool:
        """Whether the wanted minimum of iterations is complete."""
        return self.trajectory.completed >= self.settings.min_iterations


Row = Callable[[Facts], Decision | None]


def decide(facts: Facts) -> Decision:
    """Apply the first matching row of the table."""
    for row in rows_in_force(facts.settings):
        decision = row(facts)
        if decision is not None:
            return decision
    return go_on(facts)


def rows_in_force(settings: RefineSettings) -> tuple[Row, ...]:
    """The rows that apply under the run's pattern or custom tree, in order."""
    # Limits first: after a spent one no further call may start, whatever the score says.
    spent: tuple[Row, ...] = (budget, time, answered)
    if settings.pattern == "strategies":
        return (*spent, *_in_turn(settings))
    # A checklist ends when every item passes; its score may fall on the way.
    fell: tuple[Row, ...] = () if settings.pattern == "checklist" else (regression,)
    # `passed` comes before `regression`: a draft that is done is not thrown away for its score.
    opening = (*spent, passed, *fell, first_failure)
    if settings.termination is not None:
        # A tree without any limit could run for ever, so the hard limit stays behind it.
        middle: tuple[Row, ...] = (tool_loop_broken, person, tree, hard_limit)
        return (*opening, *middle, low_score, tool_loop, second_failure)
    # A draft that is good enough ends the run, whatever its tools did. The limit comes before the
    # low score: nobody is asked about a run that may not iterate again.
    middle = (quality, tool_loop_broken, person, max_iterations, low_score, tool_loop)
    # `second_failure` comes last: a limit reached in the same iteration names the reason instead.
    return (*opening, *middle, *_closing(settings), second_failure)


def _in_turn(settings: RefineSettings) -> tuple[Row, ...]:
    """The rows for `strategies`: a failed strategy does not end the run, only the limit does."""
    # A broken tool loop is the failure of one strategy too: the next one may need no such tool.
    if settings.termination is not None:
        return (passed, person, tree, hard_limit, low_score, tool_loop)
    # `none_worked` before the limit, which would call it a best effort though there is no result.
    return (passed, quality, person, none_worked, max_iterations, low_score, tool_loop)


def _closing(settings: RefineSettings) -> tuple[Row, ...]:
    match settings.pattern:
        case "confidence":
            return (repeated, degradation, little_gain)
        case "improvement":
            return (repeated, degradation, plateau)
        case "checklist":
            return (repeated,)
        case "strategies":
            return ()


def budget(facts: Facts) -> Decision | None:
    """Any budget dimension but time is spent."""
    if facts.exhausted is None:
        return None
    return _end("abort_budget", "budget", run_end("out_of_budget", facts.exhausted))


def time(facts: Facts) -> Decision | None:
    """Active or wall time is spent."""
    if facts.out_of_time is None:
        return None
    return _end("abort_timeout", "time", run_end("deadline", facts.out_of_time))


def answered(facts: Facts) -> Decision | None:
    """The task needed one answer without an evaluation, and has it."""
    if facts.answer_only is None or facts.failure is not None:
        return None
    reason = "read_only" if facts.answer_only == "read_only" else "completed"
    return _end("accept", "answered", run_end("accepted", reason))


def regression(facts: Facts) -> Decision | None:
    """The score fell by more than the threshold."""
    settings, trajectory = facts.settings, facts.trajectory
    fell = trajectory.has_regressed(settings.regression_threshold, settings.compare_with)
    if not (fell and settings.abort_on_regression):
        return None
    compared = (
        trajectory.previous if settings.compare_with == "previous" else trajectory.best_before
    )
    figures = (
        f"from {compared:g} to {trajectory.current:g}, allowed {settings.regression_threshold:g}"
    )
    return _end("abort_regression", "regression", run_end("regressed", "regression", figures))


def first_failure(facts: Facts) -> Decision | None:
    """A failure of the first iteration ends the run, unless compaction can heal it."""
    # A first iteration that fails usually fails for a reason that the next one meets again, such as
    # a missing model or program. A context that overflowed is compacted, and heals.
    if facts.failure is None or facts.failure.heals or facts.trajectory.completed > 1:
        return None
    return _failed("first_failure", facts.failure)


def passed(facts: Facts) -> Decision | None:
    """All deciding dimensions pass, or all items of a checklist."""
    # Checks may pass while a judge fails: an iteration without a score accepts nothing.
    if not facts.is_scored:
        return None
    if facts.settings.pattern == "checklist" and facts.items_passed and facts.enough_iterations:
        return _end("accept", "quality", run_end("accepted", "all_items_pass"))
    # Whatever `min_iterations` says: more rounds could only break what is done.
    if facts.deciding_passed and facts.settings.pattern != "checklist":
        figures = "all deciding checks pass"
        return _end("accept", "quality", _accepted(facts, figures))
    return None


def quality(facts: Facts) -> Decision | None:
    """The threshold is reached and the minimum of iterations done.

    Where nobody set a threshold, only a full score does: no iteration can improve on it.
    """
    settings = facts.settings
    threshold = PERFECT if settings.quality_threshold is None else settings.quality_threshold
    # A mean can be high while one item fails, and a checklist needs them all.
    if settings.pattern == "checklist":
        return None
    if not (facts.enough_iterations and facts.trajectory.has_reached(threshold)):
        return None
    figures = f"score {facts.trajectory.current:g}, threshold {threshold:g}"
    return _end("accept", "quality", _accepted(facts, figures))


def none_worked(facts: Facts) -> Decision | None:
    """All strategies failed, and there is no result to return."""
    last = facts.trajectory.completed >= facts.settings.max_iterations
    # An unscored output counts as a best, too: then there is something to return.
    if facts.failure is None or facts.trajectory.best is not None or not last:
        return None
    return _failed("none_worked", facts.failure)


def tool_loop_broken(facts: Facts) -> Decision | None:
    """The circuit breaker for repeated tool calls opened."""
    if facts.tool_loop != "broken":
        return None
    return _end("abort_tool_loop", "tool_loop_broken", run_end("tool_misuse", "tool_loop"))


def person(facts: Facts) -> Decision | None:
    """A person used `escalate`."""
    if not facts.escalation_asked:
        return None
    return Decision("escalate", "person", "A person asked to look at the run.")


def tree(facts: Facts) -> Decision | None:
    """The custom termination tree."""
    condition = facts.settings.termination
    verdict = check_termination(condition, facts.loop) if condition else None
    return _end(_decision_of(verdict.outcome), "tree", verdict) if verdict else None


def hard_limit(facts: Facts) -> Decision | None:
    """The guard behind a custom tree, so that no loop runs for ever."""
    return _limit(facts, facts.settings.hard_limit, "hard_limit")


def max_iterations(facts: Facts) -> Decision | None:
    """The permitted iterations are used up."""
    return _limit(facts, facts.settings.max_iterations, "max_iterations")


def low_score(facts: Facts) -> Decision | None:
    """The score is so low that a person should look."""
    lowest, score = facts.settings.escalate_below, facts.trajectory.current
    if lowest is None or score is None or score >= lowest:
        return None
    return Decision("escalate", "low_score", f"The score {score:g} is below {lowest:g}.")


def tool_loop(facts: Facts) -> Decision | None:
    """The model repeats a tool call too often."""
    if facts.tool_loop != "critical":
        return None
    return Decision("escalate", "tool_loop", "The model keeps repeating the same tool call.")


def repeated(facts: Facts) -> Decision | None:
    """The output was seen before. Parts that pass repeat by design while others still fail."""
    # With parts, passing ones are kept word for word: the whole may repeat while one part improves.
    if not facts.loop.repeated or facts.failing_parts > 0:
        return None
    return _end("accept_best", "repeated", run_end("best_effort", "repeated_output"))


def degradation(facts: Facts) -> Decision | None:
    """The score kept falling."""
    if not facts.trajectory.is_degrading(DEGRADATION_WINDOW):
        return None
    return _end("abort_regression", "degradation", run_end("regressed", "degradation"))


def little_gain(facts: Facts) -> Decision | None:
    """The newest iteration gained too little; failing parts get `patience` rounds."""
    threshold, trajectory = facts.settings.improvement_threshold, facts.trajectory
    if threshold is None or not facts.enough_iterations:
        return None
    if facts.failing_parts > 0:
        # A part may need several tries, of which the first gain nothing.
        if not trajectory.has_no_new_best(facts.settings.patience):
            return None
        figures = f"{trajectory.since_best} rounds without gain"
    elif trajectory.is_diminishing(threshold):
        figures = f"change {trajectory.change:+g}, wanted {threshold:+g}"
    else:
        return None
    return _end(
        "accept_best", "little_gain", run_end("best_effort", "diminishing_returns", figures)
    )


def plateau(facts: Facts) -> Decision | None:
    """The pattern `improvement`: no new best."""
    trajectory = facts.trajectory
    patience = facts.settings.patience if facts.failing_parts > 0 else 1
    # A failed iteration counts as one without a new best, and is no plateau.
    compared = facts.is_scored and trajectory.scored > 1 and facts.enough_iterations
    if not (compared and trajectory.has_no_new_best(patience)):
        return None
    return _end("accept_best", "little_gain", run_end("best_effort", "plateau"))


def second_failure(facts: Facts) -> Decision | None:
    """Two failed iterations in a row end the run, the best kept."""
    if facts.failure is None or facts.failures_in_a_row < FAILURES_IN_A_ROW:
        return None
    return _failed("second_failure", facts.failure)


def go_on(facts: Facts) -> Decision:
    """No other rule applies."""
    if facts.failure is not None:
        return Decision("continue", "go_on", f"The iteration failed: {facts.failure.message}")
    return Decision("continue", "go_on", "The result can still get better.")


def _accepted(facts: Facts, figures: str) -> RunEnd:
    reason = "strategy_succeeded" if facts.settings.pattern == "strategies" else "quality_met"
    return run_end("accepted", reason, figures)


def _limit(facts: Facts, limit: int, row: str) -> Decision | None:
    completed = facts.trajectory.completed
    if completed < limit:
        return None
    return _end(
        "accept_best", row, run_end("best_effort", "max_iterations", f"{completed} of {limit}")
    )


def _failed(row: str, failure: Failure) -> Decision:
    if failure.reason == NO_OUTPUT:
        return _end("abort_error", row, run_end("no_output", "no_output", failure.message))
    return _end("abort_error", row, run_end("failed", failure.reason, failure.message))


def _decision_of(outcome: Outcome) -> DecisionKind:
    match outcome:
        case "accepted":
            return "accept"
        case "deadline":
            return "abort_timeout"
        case "regressed":
            return "abort_regression"
        case _:
            return "accept_best"


def _end(decision: DecisionKind, row: str, verdict: RunEnd) -> Decision:
    return Decision(decision, row, verdict.explanation, verdict.outcome, verdict.reason)
