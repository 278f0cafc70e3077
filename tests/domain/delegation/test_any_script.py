"""Any script of decisions, replies and scores ends, and says why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.apply_decision import (
    after_checks,
    after_rejection,
    after_unreadable_reply,
    decide,
)
from perdure.domain.delegation.completion import Rejection
from perdure.domain.delegation.decisions import Envelope, ManagerDecision
from perdure.domain.delegation.next_step import BudgetPhase, Check, End, Test, Work, budget_phase
from perdure.domain.delegation.progress import (
    ManagerProgress,
    after_delegation,
    after_diagnosis,
    planned_end,
    progress_end,
)
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.stall import StallVerdict
from perdure.domain.evaluation.outcomes import REASONS, RunEnd
from tests.domain.delegation.playing import (
    ASK,
    DONE,
    GIVE_UP,
    GUESS,
    REJECTION,
    UNNAMED,
    plan,
    work,
)


@dataclass(frozen=True)
class Event:
    """What the world does in one iteration; no decision is an unreadable reply."""

    decision: ManagerDecision | None
    confidence: float | None
    similarity: float | None
    rejection: Rejection | None
    score: float | None


DECISIONS: st.SearchStrategy[ManagerDecision] = st.one_of(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8).map(lambda n: work(*n)),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(lambda n: plan(*n)),
    st.sampled_from([GUESS, DONE, ASK, GIVE_UP]),
)


EVENTS = st.builds(
    Event,
    decision=st.one_of(DECISIONS, DECISIONS, DECISIONS, st.none()),
    confidence=st.sampled_from([None, 0.0, 0.3, 0.31, 0.5, 0.9]),
    similarity=st.sampled_from([None, 0.1, 0.99]),
    rejection=st.sampled_from([REJECTION, UNNAMED, None]),
    score=st.sampled_from([None, 0.2, 0.5, 0.9]),
)


def drive(script: Sequence[Event], settings: DelegationSettings) -> tuple[ManagerProgress, RunEnd]:
    """A loop without a workflow: the script says what manager, workers and gates do."""
    course, events = ManagerProgress(), cycle(script)
    while (end := planned_end(course, settings)) is None:
        phase = budget_phase(1 - course.iteration / (settings.max_iterations + 1))
        course, end = iterate(course.with_next_iteration(), events, settings, phase)
        if end is not None:
            break
    return course, end


def iterate(
    course: ManagerProgress,
    events: Iterator[Event],
    settings: DelegationSettings,
    phase: BudgetPhase,
) -> tuple[ManagerProgress, RunEnd | None]:
    event = next(events)
    while event.decision is None:
        course, asked = after_unreadable_reply(course, ("?",))
        if isinstance(asked, End):
            return course, asked.verdict
        event = next(events)
    course, directive = decide(course, event.decision, settings=settings, phase=phase)
    verdict: StallVerdict | None = None
    match directive:
        case End():
            return course, directive.verdict
        case Work():
            course, verdict = carried_out(course, directive.envelopes, event, settings)
        case Test():
            course = after_diagnosis(course, [], settings=settings)
        case Check():
            course, end = checked(course, event, settings, phase)
            if end is not None:
                return course, end
        case _:
            pass
    return course, progress_end(course, settings, verdict)


def carried_out(
    course: ManagerProgress,
    envelopes: Sequence[Envelope],
    event: Event,
    settings: DelegationSettings,
) -> tuple[ManagerProgress, StallVerdict]:
    reports = [
        WorkerReport(
            worker=item.worker,
            subtask=item.worker,
            confidence=event.confidence,
            usable=event.confidence is not None,
        )
        for item in envelopes
    ]
    return after_delegation(
        course, envelopes, reports, output="o", similarity=event.similarity, settings=settings
    )


def checked(
    course: ManagerProgress, event: Event, settings: DelegationSettings, phase: BudgetPhase
) -> tuple[ManagerProgress, RunEnd | None]:
    if event.rejection is None:
        course, after = after_checks(course, event.score, settings=settings, phase=phase)
    else:
        wrong = event.rejection.named
        course, after = after_rejection(
            course, event.rejection, wrong=wrong, settings=settings, phase=phase
        )
    return course, after.verdict if isinstance(after, End) else None


@hypothesis.settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, min_size=1, max_size=12), st.integers(min_value=1, max_value=40))
def test_any_script_of_decisions_ends_with_a_known_reason(script: list[Event], limit: int) -> None:
    course, end = drive(script, DelegationSettings(max_iterations=limit))
    assert end.reason in REASONS[end.outcome]
    assert course.iteration <= limit
    assert len(course.model_dump_json()) < 64 * 1024
    assert ManagerProgress.model_validate_json(course.model_dump_json()) == course


@given(st.data())
def test_a_manager_that_cannot_be_read_is_asked_five_times(data: st.DataObject) -> None:
    settings = DelegationSettings(max_iterations=data.draw(st.integers(1, 9)))
    silent = Event(None, None, None, None, None)
    course, end = drive([silent], settings)
    assert (end.reason, course.unreadable) == ("manager_unreadable", 5)
