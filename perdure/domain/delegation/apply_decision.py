"""Applies a manager's decision, or the refusal of a completion."""

from collections.abc import Sequence
from typing import assert_never

from perdure.domain.delegation.completion import REPAIRS_OF_COMPLETION, Rejection, completion_repair
from perdure.domain.delegation.decisions import (
    Complete,
    Delegate,
    Diagnose,
    Envelope,
    Escalate,
    Fail,
    MakePlan,
    ManagerDecision,
)
from perdure.domain.delegation.deliverables import final_score, gaps, quality
from perdure.domain.delegation.next_step import (
    AfterCheck,
    AskAgain,
    AskPerson,
    BudgetPhase,
    Check,
    DecisionRefused,
    Directive,
    End,
    Planned,
    Repair,
    Test,
    Work,
    phase_refusal,
)
from perdure.domain.delegation.parse_decision import MOST_UNREADABLE
from perdure.domain.delegation.plan import as_measured, plan_problems, replanned, with_plan_ids
from perdure.domain.delegation.progress import ManagerProgress, diagnosis_refusal
from perdure.domain.delegation.repeated_work import NOTHING_BESIDE, Surroundings, repeat_refusal
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.evaluation.outcomes import run_end
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import Evaluation, has_passed_deciding_checks, overall_score

UNHEARD = (
    "People added something while you decided. It stands under Guidance or among the inputs: see "
    "to it, or say in the final result why not, and decide again."
)
GOES_ON = (
    "A person was asked before the run ended, and lets it go on. What they said stands under "
    "Guidance: improve the result, then decide again."
)
# A manager that only plans would otherwise go on until its budget is spent.
REFUSED_PLANS = 5
# A judge may fail for a moment: the next completion is scored before the run gives up.
MOST_UNRATED = 2

Step = tuple[ManagerProgress, Directive]


def after_unreadable_reply(
    course: ManagerProgress, problems: Sequence[str]
) -> tuple[ManagerProgress, AskAgain | End]:
    """Ask again after an unreadable reply; five in a row end the run."""
    count = course.unreadable + 1
    changed = course.model_copy(update={"unreadable": count})
    if count >= MOST_UNREADABLE:
        detail = f"{count} replies in a row; the last: {' '.join(problems)}"
        return changed, End(run_end("failed", "manager_unreadable", detail))
    return changed, AskAgain(tuple(problems))


def decide(
    course: ManagerProgress,
    decision: ManagerDecision,
    *,
    settings: DelegationSettings,
    phase: BudgetPhase,
    unheard: bool = False,
    beside: Surroundings = NOTHING_BESIDE,
    by_plan: bool = True,
) -> Step:
    """Whether a decision is carried out, and how, or why it is refused.

    `unheard`: people added what the manager had not read when it decided. `beside` is what workers
    would be shown beside their own work. `by_plan`: work goes to the subtask that it means, however
    the id is written, and the manager is told of ids that are none; older histories lack that.
    """
    # Before anything may refuse: the refusal is noted on the round that this opens.
    course = course.with_decision(decision.decision, reason=decision.reason)
    late = phase_refusal(phase, decision.decision)
    # Only decisions that end the run wait. After any other there is a further prompt, which tells
    # the manager what people added.
    if late is None and unheard and decision.decision in {"complete", "fail"}:
        late = UNHEARD
    if late is not None:
        return _after_refusal(course, late)
    match decision:
        case Delegate():
            envelopes, notes = decision.delegations, ()
            if by_plan:
                envelopes, notes = with_plan_ids(envelopes, course.plan)
            return _delegate(course.with_notes(*notes), envelopes, settings, beside)
        case MakePlan():
            return _plan(course, decision)
        case Diagnose():
            refusal = diagnosis_refusal(course.diagnoses, max_iterations=settings.max_iterations)
            return (
                _after_refusal(course, refusal) if refusal else (course, Test(decision.hypotheses))
            )
        case Complete():
            return course, Check(decision)
        case Escalate():
            return course, AskPerson(decision.question, decision.choices)
        case Fail():
            outcome = "best_effort" if course.usable else "failed"
            return course, End(run_end(outcome, "gave_up", decision.why or decision.reason))
        case _:
            assert_never(decision)


def after_rejection(
    course: ManagerProgress,
    rejection: Rejection,
    *,
    wrong: Sequence[str],
    settings: DelegationSettings,
    phase: BudgetPhase,
) -> tuple[ManagerProgress, AfterCheck]:
    """What follows a refused completion: the manager is told, a repair, or the end.

    Args:
        course: as it was.
        rejection: the check that failed, with what it names.
        wrong: everything that a repair can be told by name.
        settings: of the run.
        phase: of the budget; its reserve pays for no repair.
    """
    breaker, tripped = course.breaker.after(rejection, cap=settings.completion_rejections)
    changed = course.model_copy(update={"breaker": breaker}).with_round_note(rejection.text)
    if not tripped:
        return changed.with_notes(rejection.text), DecisionRefused(rejection.text)
    if not wrong or breaker.trips > REPAIRS_OF_COMPLETION or phase == "reserve":
        return changed, End(run_end("best_effort", "completion_rejected", rejection.text))
    return changed.with_notes(rejection.text), Repair(completion_repair(wrong))


def after_checks(
    course: ManagerProgress,
    score: float | None,
    *,
    settings: DelegationSettings,
    wrong: Sequence[str] = (),
    lacking: Sequence[str] = (),
    phase: BudgetPhase = "core_work",
) -> tuple[ManagerProgress, AfterCheck]:
    """After all completion checks passed: accept, repair or fail the deliverable by its score.

    Args:
        course: as it was.
        score: of the rubric if there is one, else the reviewers' mean.
        settings: of the run.
        wrong: everything that a repair can be told by name.
        lacking: what the rubric holds against it.
        phase: of the budget.
    """
    thresholds = settings.evaluation
    match quality(score, thresholds):
        case "accept":
            figures = "" if score is None else f"score {score:.2f}"
            return course, End(run_end("accepted", "completed", figures))
        case "accept_with_warning":
            figures = f"with a warning: score {score:.2f}, wanted {thresholds.accept:g}"
            return course, End(run_end("accepted", "completed", figures))
        case "repair":
            # With the score, so that a version that scored better is no repeated rejection.
            named = (f"the score is {score:.2f}, wanted {thresholds.warn:g}", *lacking)
            rejection = Rejection(check="quality", named=named)
            return after_rejection(course, rejection, wrong=wrong, settings=settings, phase=phase)
        case "fail":
            figures = f"score {score:.2f}, wanted {thresholds.repair:g}"
            return course, End(run_end("failed", "quality_failed", figures))


def after_rating(
    course: ManagerProgress,
    rubric: Rubric,
    evaluation: Evaluation,
    *,
    settings: DelegationSettings,
    phase: BudgetPhase,
) -> tuple[ManagerProgress, AfterCheck]:
    """What follows the rubric's score; the deliverable is accepted if all deciding checks pass."""
    course = course.model_copy(update={"unrated": 0})
    score = overall_score(rubric, evaluation)
    if has_passed_deciding_checks(rubric, evaluation):
        said = "all deciding checks pass"
        figures = said if score is None else f"{said}, score {score:.2f}"
        return course, End(run_end("accepted", "completed", figures))
    lacking = gaps(rubric, evaluation, wanted=settings.evaluation.accept)
    return after_checks(
        course,
        final_score(score, course.reviews.mean),
        settings=settings,
        wrong=lacking,
        lacking=lacking,
        phase=phase,
    )


def after_failed_rating(course: ManagerProgress, why: str) -> tuple[ManagerProgress, AfterCheck]:
    """What follows a failed evaluation: there is no score, and two in a row end the run."""
    count = course.unrated + 1
    changed = course.model_copy(update={"unrated": count})
    if count >= MOST_UNRATED:
        return changed, End(run_end("failed", "evaluator_failed", why))
    said = f"The deliverable could not be scored: {why}. Nothing is known against it; complete it."
    return changed.with_round_note(f"not scored: {why}").with_notes(said), DecisionRefused(said)


def _delegate(
    course: ManagerProgress,
    envelopes: tuple[Envelope, ...],
    settings: DelegationSettings,
    beside: Surroundings,
) -> Step:
    cap = settings.workers_per_iteration or len(envelopes)
    now, later = envelopes[:cap], envelopes[cap:]
    # Compared as it will be remembered: without the deferred work, and with the acceptance that
    # the plan gives it now.
    refusal = repeat_refusal(course.past, as_measured(now, course.plan), beside)
    if refusal is not None:
        return _after_refusal(course, refusal)
    deferred = tuple(envelope.worker for envelope in later)
    if deferred:
        course = course.with_notes(
            f"Deferred, as an iteration takes {cap} workers: {', '.join(deferred)}. "
            "Delegate them again if they are still needed."
        )
    return course, Work(now, deferred)


def _plan(course: ManagerProgress, decision: MakePlan) -> Step:
    problems = plan_problems(decision.subtasks)
    if problems:
        return _after_refusal(course, f"The plan was refused: {' '.join(problems)}")
    if not course.plan.locked:
        plan = replanned(course.plan, decision.subtasks)
        return course.model_copy(update={"plan": plan, "refused_plans": 0}), Planned()
    refused = course.refused_plans + 1
    course = course.model_copy(update={"refused_plans": refused})
    # Not only what is ready: work behind pending subtasks can still be reached.
    workable = course.plan.workable
    if not workable or refused >= REFUSED_PLANS:
        detail = "no subtask can be worked on" if not workable else f"{refused} plans, no work"
        return course, End(run_end("best_effort", "plan_loop_stall", detail))
    ready = ", ".join(node.id for node in course.plan.actionable) or workable[0].id
    return _after_refusal(
        course, f"The plan is locked until work brings something. Delegate now; ready: {ready}."
    )


def _after_refusal(course: ManagerProgress, why: str) -> Step:
    return course.with_round_note(f"refused: {why}").with_notes(why), DecisionRefused(why)
