"""The progress of a delegation run: the state that its rules read, and how events change it.

Its size is bounded, since it travels through every continue-as-new.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from perdure.domain.delegation.completion import Breaker
from perdure.domain.delegation.confidence import iteration_confidence, mean_rating
from perdure.domain.delegation.decisions import DecisionName, Envelope
from perdure.domain.delegation.plan import TaskPlan, as_measured
from perdure.domain.delegation.repeated_work import (
    NOTHING_BESIDE,
    PastWork,
    Surroundings,
    repeat_warning,
)
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.stall import (
    Measurement,
    Progress,
    StallVerdict,
    after_reading,
    findings_hash,
    why_converged,
)
from perdure.domain.delegation.summary import Round, shortened
from perdure.domain.delegation.worker_review import Reviews
from perdure.domain.evaluation.outcomes import RunEnd, run_end
from perdure.domain.foundation.base import FrozenModel

CONFIRMED_ABOVE = 0.5
IN_A_ROW = 2
DELEGATIONS_AFTER = 2
FEWEST = 3
ITERATIONS_PER_DIAGNOSIS = 4


class Diagnoses(FrozenModel):
    """How often causes were looked for: in all, in a row, and the delegations since then."""

    count: int = 0
    in_a_row: int = 0
    delegations_since: int = DELEGATIONS_AFTER

    def after_diagnosis(self) -> "Diagnoses":
        return Diagnoses(count=self.count + 1, in_a_row=self.in_a_row + 1, delegations_since=0)

    def after_delegation(self) -> "Diagnoses":
        since = self.delegations_since + 1
        rested = self.in_a_row < IN_A_ROW or since >= DELEGATIONS_AFTER
        return Diagnoses(
            count=self.count, in_a_row=0 if rested else self.in_a_row, delegations_since=since
        )


def diagnosis_refusal(diagnoses: Diagnoses, *, max_iterations: int) -> str | None:
    """Why no further diagnosis is made now; None: it may be made."""
    most = max(FEWEST, max_iterations // ITERATIONS_PER_DIAGNOSIS)
    if diagnoses.count >= most:
        return f"No more diagnoses: {diagnoses.count} of {most} were made. Delegate or complete."
    if diagnoses.in_a_row >= IN_A_ROW:
        missing = DELEGATIONS_AFTER - diagnoses.delegations_since
        return (
            f"No diagnosis now: {diagnoses.in_a_row} were made in a row. "
            f"Delegate work {missing} more time{'s' * (missing > 1)} first."
        )
    return None


Tested = Literal["confirmed", "not confirmed", "undecided", "not tested"]


def verdict_of(report: WorkerReport) -> Tested:
    """What the test of a hypothesis says of it."""
    if report.end != "done":
        return "not tested"
    # Not the derived confidence: tools that worked make no hypothesis likelier.
    if report.stated is None:
        return "undecided"
    return "confirmed" if report.stated > CONFIRMED_ABOVE else "not confirmed"


ROUNDS_KEPT = 50
ANSWERS_KEPT = 10
NOTE_CHARACTERS = 600
REASON_CHARACTERS = 300
MOST_NOTES = 12


class PersonsAnswer(FrozenModel):
    """What a person said to a question."""

    question: str
    answer: str


class ManagerProgress(FrozenModel):
    """A run so far.

    Args:
        iteration: decisions that were begun.
        rounds: the newest of them; those in the window with their workers.
        plan: the task plan.
        diagnoses: how often causes were looked for.
        past: work that went badly, and who worked lately.
        progress: readings and strategies.
        breaker: refused completions.
        reviews: what reviewers said.
        unreadable: replies in a row that could not be read.
        unrated: completions in a row that the rubric could not score.
        refused_plans: plans in a row that were refused because the plan is locked.
        notes: what the manager is told in its next view.
        answers: what people said.
        usable: some worker brought something that can be used.
    """

    iteration: int = 0
    rounds: tuple[Round, ...] = ()
    plan: TaskPlan = TaskPlan()
    diagnoses: Diagnoses = Diagnoses()
    past: PastWork = PastWork()
    progress: Progress = Progress()
    breaker: Breaker = Breaker()
    reviews: Reviews = Reviews()
    unreadable: int = 0
    unrated: int = 0
    refused_plans: int = 0
    notes: tuple[str, ...] = ()
    answers: tuple[PersonsAnswer, ...] = ()
    usable: bool = False

    def with_next_iteration(self) -> "ManagerProgress":
        return self.model_copy(update={"iteration": self.iteration + 1})

    def with_decision(
        self, decision: DecisionName | None, *, reason: str = ""
    ) -> "ManagerProgress":
        """Add the decision of this iteration, and drop notices that the manager has seen."""
        round = Round(
            index=self.iteration, decision=decision, reason=shortened(reason, REASON_CHARACTERS)
        )
        return self.model_copy(
            update={"rounds": (*self.rounds, round)[-ROUNDS_KEPT:], "notes": (), "unreadable": 0}
        )

    def with_notes(self, *notes: str) -> "ManagerProgress":
        """The progress with more notes for the manager's next prompt."""
        said = [shortened(note, NOTE_CHARACTERS) for note in notes if note.strip()]
        kept = tuple(dict.fromkeys((*self.notes, *said)))[-MOST_NOTES:]
        return self.model_copy(update={"notes": kept})

    def with_round_note(self, note: str) -> "ManagerProgress":
        """The progress with what became of this iteration's decision."""
        return self._last(note=shortened(note, REASON_CHARACTERS))

    def with_answer(self, question: str, answer: str) -> "ManagerProgress":
        """The progress with a person's answer, which later prompts show."""
        said = PersonsAnswer(question=shortened(question, 600), answer=answer[:4_000])
        return self.model_copy(update={"answers": (*self.answers, said)[-ANSWERS_KEPT:]})

    @property
    def pending(self) -> int:
        """Subtasks that are neither done nor failed."""
        return len(self.plan.pending)

    def _last(self, **fields: object) -> "ManagerProgress":
        if not self.rounds:
            return self
        last = self.rounds[-1].model_copy(update=fields)
        return self.model_copy(update={"rounds": (*self.rounds[:-1], last)})

    def with_results(
        self, reports: Sequence[WorkerReport], *, confidence: float | None
    ) -> "ManagerProgress":
        """The progress with this iteration's results; older rounds lose their details."""
        course = self._last(workers=tuple(reports), confidence=confidence)
        return course.model_copy(
            update={"usable": self.usable or any(report.usable for report in reports)}
        )

    def without_old_details(self, window: int) -> "ManagerProgress":
        """With details in the newest rounds only."""
        older = tuple(item.model_copy(update={"workers": ()}) for item in self.rounds[:-window])
        return self.model_copy(update={"rounds": (*older, *self.rounds[-window:])})


def after_delegation(
    course: ManagerProgress,
    envelopes: Sequence[Envelope],
    reports: Sequence[WorkerReport],
    *,
    output: str | None,
    similarity: float | None,
    settings: DelegationSettings,
    beside: Surroundings = NOTHING_BESIDE,
    deferred_counts: bool = False,
) -> tuple[ManagerProgress, StallVerdict]:
    """The course after workers came back, and whether the work is stuck.

    Args:
        course: as it was when they were sent.
        envelopes: what they were told.
        reports: what they brought, one for each.
        output: the address of what they wrote, None for nothing.
        similarity: of that to the output of `compared_with`; None: not compared.
        settings: of the run.
        beside: what the workers were shown beside that.
        deferred_counts: work that has not begun counts as failed, as older histories have it.
    """
    confidence = iteration_confidence(reports)
    moved = any(report.usable for report in reports)
    begun = any(report.end != "deferred" for report in reports)
    progress, verdict = course.progress, StallVerdict(signal="ok")
    if begun or deferred_counts:
        # Errors are no findings: three equal ones must not pass for a result that stays the same.
        found = findings_hash(item.key_finding for item in reports if item.usable)
        progress, verdict = after_reading(
            course.progress,
            # Without any confidence it reads 0: a run whose workers all crash is stuck as well.
            Measurement(confidence=confidence or 0.0, output=output, findings=found),
            similarity=similarity,
            settings=settings.stall,
            strategies=settings.strategies,
        )
    plan = _marked(course.plan, reports, settings, deferred_counts=deferred_counts)
    changed = course.with_results(reports, confidence=confidence).model_copy(
        update={
            "plan": plan.progressed() if moved else plan,
            "diagnoses": course.diagnoses.after_delegation(),
            "past": course.past.after(
                as_measured(envelopes, course.plan),
                iteration=course.iteration,
                # Not that of the reading: whether work was poor, its reviewer says first.
                confidence=mean_rating(reports),
                beside=beside,
            )
            # There was no budget for it: with more, the same work may be done after all.
            if begun
            else course.past,
            "progress": progress,
            "breaker": course.breaker.after_progress() if moved else course.breaker,
            "refused_plans": 0,
        }
    )
    changed = changed.with_notes(repeat_warning(changed.past) or "", _stall_note(verdict))
    return changed.without_old_details(settings.full_results_window), verdict


def after_diagnosis(
    course: ManagerProgress, reports: Sequence[WorkerReport], *, settings: DelegationSettings
) -> ManagerProgress:
    """The course after hypotheses were tested; each report's `worker` is the hypothesis."""
    told: dict[Tested, list[str]] = {name: [] for name in get_args(Tested)}
    for report in reports:
        verdict = verdict_of(report)
        told[verdict].append(_hypothesis(report, verdict))
    said = [f"{verdict}: {', '.join(names)}" for verdict, names in told.items() if names]
    # How likely a guess is says nothing about the quality of the work.
    changed = course.with_results(reports, confidence=None).with_round_note("; ".join(said))
    changed = changed.model_copy(update={"diagnoses": course.diagnoses.after_diagnosis()})
    return changed.without_old_details(settings.full_results_window)


def _hypothesis(report: WorkerReport, verdict: Tested) -> str:
    """The name of a hypothesis, with what its test found if the manager has to judge by it."""
    found = report.key_finding if verdict == "undecided" else ""
    return f"{report.worker} ({shortened(found)})" if found else report.worker


def planned_end(course: ManagerProgress, settings: DelegationSettings) -> RunEnd | None:
    """The end before a further iteration: the permitted ones are used up."""
    if course.iteration < settings.max_iterations:
        return None
    figures = f"{course.iteration} of {settings.max_iterations}"
    return run_end("best_effort", "max_iterations", figures)


def progress_end(
    course: ManagerProgress, settings: DelegationSettings, verdict: StallVerdict | None = None
) -> RunEnd | None:
    """The end after a decision: no strategy is left, or the results stopped changing.

    A strategy that begins now gets its chance first.
    """
    match verdict.signal if verdict else None:
        case "stop":
            return run_end("best_effort", "stalled", verdict.why if verdict else "")
        case "switch_strategy":
            return None
        case _:
            why = why_converged(
                course.progress,
                iteration=course.iteration,
                pending=course.pending,
                settings=settings.stall,
            )
            return run_end("best_effort", "converged", why) if why else None


def _marked(
    plan: TaskPlan,
    reports: Sequence[WorkerReport],
    settings: DelegationSettings,
    *,
    deferred_counts: bool,
) -> TaskPlan:
    """The plan with what became of the subtasks that were worked on."""
    for id in dict.fromkeys(report.subtask for report in reports if report.subtask):
        of_it = [report for report in reports if report.subtask == id]
        put_off = [item.error for item in of_it if item.end == "deferred" and not deferred_counts]
        if put_off:
            # The rest of it is still to be done; where nothing has begun, it stands as it stood.
            begun = len(put_off) < len(of_it)
            plan = plan.marked(id, "pending", shortened(put_off[-1])) if begun else plan
            continue
        good = [report for report in of_it if _is_done(report, settings)]
        bad = [why for report in of_it if (why := _failure(report, settings))]
        # Several may share a subtask: it has failed if nobody did it, and is done if all did.
        if bad and not good:
            plan = plan.marked(id, "failed", shortened(bad[-1]))
        elif good and len(good) == len(of_it):
            plan = plan.marked(id, "done", good[-1].key_finding)
        else:
            plan = plan.marked(id, "pending", "the review asks for more")
    return plan


def _failure(report: WorkerReport, settings: DelegationSettings) -> str:
    """Why a worker's result cannot be built on; empty if it can."""
    if not report.usable:
        return report.error or "nothing usable came back"
    # However sure its own workers were: each of them did only a part.
    if report.cut_short and report.critique is None:
        return report.error or "it was cut short"
    judged = report.judged
    # None: the worker did not say, and nothing in the work gives a reason for doubt.
    if judged is None or judged >= settings.min_confidence:
        return ""
    if report.critique is None and report.doubtful:
        figures = f"{judged:.2f}, wanted {settings.min_confidence:g}"
        return f"its worker gave no confidence, and the work looks unfinished: {figures}"
    whose = "its worker is" if report.critique is None else "its reviewer is"
    return f"{whose} confident at {judged:.2f}, wanted {settings.min_confidence:g}"


def _is_done(report: WorkerReport, settings: DelegationSettings) -> bool:
    if _failure(report, settings):
        return False
    # Between the two thresholds the work has not failed, but its review asks for more.
    reviewed = report.critique is None or report.critique >= settings.critique.min_mean
    return reviewed


def _stall_note(verdict: StallVerdict) -> str:
    if verdict.signal != "warn":
        return ""
    return f"The work may be stuck: {verdict.why}. Change something."
