"""What people and the server see of a run: status, spend, the panel, search attributes."""

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from itertools import chain

from pydantic import JsonValue

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.outcomes import Lifecycle, lifecycle
from perdure.domain.foundation.names import SEARCH_ATTRIBUTE_LIMIT
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.run.child_questions import Question
from perdure.domain.run.control import Phase
from perdure.domain.run.cost_report import money, slices
from perdure.domain.run.gates import Gate
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.spec import CommonSpec
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import (
    BudgetStatus,
    CurrentStep,
    Part,
    Point,
    RunStatus,
    StageNow,
    StageResult,
)
from perdure.domain.turns.records import IterationRecord, StageRecord, VerdictRecord

LAST_EVENTS = 10
GOAL_CHARACTERS = 300
REFUSALS_SHOWN = 3
ABOUT_CHARACTERS = 1_200
# The workflow answers from what it has in memory, and an agent may ask every few seconds.
RESULTS_SHOWN = 12
SUMMARY_CHARACTERS = 300


def metadata_of(spec: CommonSpec) -> dict[str, JsonValue]:
    """What the person who started a run noted about it, the label apart."""
    return spec.metadata.model_dump(mode="json", exclude={"label"})


def status_of(
    state: LoopState,
    *,
    run: str,
    kind: str,
    spec: CommonSpec,
    now: datetime,
    iteration: int,
    limit: int | None,
    parts: Sequence[tuple[str, bool, str]] = (),
    plan: tuple[str, ...] = (),
    stage: StageNow | None = None,
    stages: tuple[StageResult, ...] = (),
) -> RunStatus:
    """Build the status of a running run."""
    elapsed = (now - state.started_at).total_seconds()
    return RunStatus(
        id=run,
        kind=kind,
        goal=spec.goal[:GOAL_CHARACTERS],
        label=spec.metadata.label,
        metadata=metadata_of(spec),
        lifecycle=lifecycle_of(state),
        phase=phase_of(state),
        blocked_on=blocked_on(state),
        stop=None if state.outcome else state.control.stop,
        iteration=iteration,
        iteration_limit=limit,
        elapsed_s=round(elapsed, 3),
        step=_current_step(state),
        stage=stage,
        stages=stages,
        trajectory=tuple(
            Point(iteration=record.index, score=record.score, decision=record.decision)
            for record in state.records
        ),
        parts=tuple(Part(name=name, passed=passed, detail=note) for name, passed, note in parts),
        best=state.best,
        plan=plan,
        budget=budget_status(state.budget, wall_time=elapsed),
        gates=state.control.open_gates,
        questions=state.asked_below,
        children=tuple(child.id for child in state.children if child.open),
        runs_below=tuple(state.children),
        events=state.ring.events[-LAST_EVENTS:],
        last_event=state.ring.last,
        refused=tuple(state.control.refused_signals),
        refused_count=state.control.refused_count,
        said=tuple(state.control.standing),
        hook_failures=state.hook_failures,
        unseen=state.unseen,
        amendments=tuple(
            amendment.model_dump(mode="json") for amendment in state.control.amendments
        ),
        outcome=state.outcome,
        reason=state.reason,
        explanation=state.explanation,
        forked_from=state.forked_from,
        started_at=state.started_at,
    )


def _current_step(state: LoopState) -> CurrentStep | None:
    if state.step is None or state.step_since is None:
        return None
    return CurrentStep(what=state.step, since=state.step_since)


def of_iteration(
    iteration: int, stages: Sequence[StageRecord], verdicts: Sequence[VerdictRecord]
) -> tuple[StageResult, ...]:
    """The results of one iteration, in the order in which its stages ran."""
    return tuple(_result(iteration, stage, verdicts) for stage in stages)


def stage_results(
    records: Sequence[IterationRecord], under_way: Sequence[StageResult] = ()
) -> tuple[StageResult, ...]:
    """The newest 12 results, oldest first; those under way replace a record of their iteration."""
    replaced = {result.iteration for result in under_way}
    recorded = (
        of_iteration(record.index, record.stages, record.verdicts)
        for record in records
        if record.index not in replaced
    )
    return (*chain.from_iterable(recorded), *under_way)[-RESULTS_SHOWN:]


def _result(iteration: int, stage: StageRecord, verdicts: Sequence[VerdictRecord]) -> StageResult:
    given = next((one for one in reversed(verdicts) if one.by == stage.name), None)
    reason = "" if given is None else given.rationale
    return StageResult(
        iteration=iteration,
        stage=stage.name,
        role=stage.role,
        status=stage.status,
        attempt=stage.attempt,
        verdict=None if given is None else given.kind,
        summary=clipped_line(reason or stage.line or stage.error or "", SUMMARY_CHARACTERS),
        output_ref=stage.output_ref,
        child=stage.child,
    )


def blocked_on(state: LoopState) -> str | None:
    """What a person is asked, here or else in a run below."""
    asked = (*state.control.open_gates, *state.asked_below)
    return asked[0].kind if asked else None


def lifecycle_of(state: LoopState) -> Lifecycle:
    """Running, paused or waiting; after the end what the outcome says."""
    return state.control.lifecycle if state.outcome is None else lifecycle(state.outcome)


def phase_of(state: LoopState) -> Phase:
    """The phase as people see it: an open gate makes it `waiting`."""
    # Approvals are asked while the other calls of the same reply run: then that step is shown.
    return "waiting" if state.control.open_gates and state.step is None else state.phase


def budget_status(budget: Budget, *, wall_time: float) -> BudgetStatus:
    """The envelope as people see it."""
    spent = budget.spent
    return BudgetStatus(
        limits=budget.limits,
        tokens=spent.tokens,
        cost_usd=spent.cost_or_none,
        model_calls=spent.model_calls,
        tool_calls=spent.tool_calls,
        active_time_s=spent.active_time,
        reserved_tokens=int(budget.reserved_in("tokens")),
        reserved_cost_usd=budget.reserved_in("cost"),
        fraction_remaining=round(budget.fraction_remaining(wall_time=wall_time), 4),
        warned=budget.warned,
    )


def spend_report(state: LoopState, *, wall_time: float) -> SpendReport:
    """Spend so far, by phase and by model."""
    spent, reads = state.budget.spent, state.budget.limits.count_cache_reads
    return SpendReport(
        tokens=spent.tokens,
        output_tokens=spent.output_tokens,
        cost_usd=spent.cost_or_none,
        known_cost_usd=spent.cost_usd if spent.unpriced else None,
        model_calls=spent.model_calls,
        tool_calls=spent.tool_calls,
        iterations=spent.iterations,
        workers=spent.workers,
        sub_managers=spent.sub_managers,
        wall_time_s=round(wall_time, 3),
        active_time_s=round(spent.active_time, 3),
        usage=spent.usage,
        by_phase=slices(state.by_phase, count_cache_reads=reads),
        by_model=slices(state.by_model, count_cache_reads=reads),
        by_child=slices(state.by_child, count_cache_reads=reads),
        unconfirmed={
            "tokens": spent.unconfirmed.counted_tokens(count_cache_reads=reads),
            "cost_usd": money(spent.unconfirmed_cost_usd),
        },
        unconfirmed_usage=spent.unconfirmed,
    )


def panel(
    state: LoopState,
    *,
    run: str,
    spec: CommonSpec,
    iteration: int,
    limit: int | None,
    result: RunResult | None = None,
) -> str:
    """The Markdown that the Temporal Web UI shows as current details; it ends with the result."""
    lines = [f"## {_line(spec.goal, 160)}", "", _state_line(state, iteration, limit), ""]
    if state.step and state.outcome is None:
        # A run cannot see its own steps' attempts and beats; the page can.
        now = unpictured(state.step)
        lines.append(f"- now: {now}; what it waits for stands under Pending Activities")
    if state.best is not None and state.best.score is not None:
        lines.append(f"- best score {state.best.score:.2f}, in iteration {state.best.iteration}")
    scores = [f"{point.score:.2f}" for point in state.records if point.score is not None]
    if len(scores) > 1:
        lines.append(f"- scores so far: {' → '.join(scores[-8:])}")
    lines.append(f"- {_spend_line(state.budget)}")
    lines += _way_on(state, run=run)
    lines += _refusals(state)
    for gate in state.control.open_gates:
        lines += ["", *_gate_lines(gate, run=run)]
    for question in state.asked_below:
        lines += ["", *_question_lines(question, run=run)]
    if result is not None and result.output is not None:
        lines += ["", "### Result", "", *_output_lines(result)]
    return "\n".join(lines)


def _output_lines(result: RunResult) -> list[str]:
    """The output as it renders."""
    said = unpictured((result.output or "").strip())
    more = ["", f"- this is its beginning; all of it: `perdure result {result.id}`"]
    return [said, *(more if result.excerpt else ())]


def unpictured(text: str) -> str:
    """What people or models wrote, for a line of the details that is not in a fence."""
    # A picture in it would be fetched by whoever looks at the page, and its address may tell
    # secrets to its host.
    return text.replace("![", "\\!\\[")


def _line(text: str, limit: int) -> str:
    return unpictured(clipped_line(text, limit))


def _state_line(state: LoopState, iteration: int, limit: int | None) -> str:
    """The first thing that a stranger reads: how the run stands, or how it ended and why."""
    if state.outcome is not None:
        return f"**{_word(state.outcome)}** ({state.reason}): {unpictured(state.explanation or '')}"
    counted = f"iteration {iteration}{f' of at most {limit}' if limit else ''}"
    current = lifecycle_of(state)
    doing = f": {phase_of(state)}" if current == "running" else ""
    return f"**{_word(current)}**{doing}, {counted}"


def _spend_line(budget: Budget) -> str:
    spent, limits = budget.spent, budget.limits
    tokens = f"{spent.tokens:,}{f' of {limits.tokens:,}' if limits.tokens else ''} tokens"
    cost = "unknown cost" if spent.cost_or_none is None else f"{spent.cost_usd:.4f}"
    bound = f" of {limits.cost_usd:.2f}" if limits.cost_usd else ""
    money = cost if spent.cost_or_none is None else f"{cost}{bound} USD"
    calls = f"{spent.model_calls} model call{'' if spent.model_calls == 1 else 's'}"
    return f"spent {tokens}, {money}, {calls}"


def _way_on(state: LoopState, *, run: str) -> list[str]:
    """What a person does next; an open gate says its own."""
    if state.outcome is not None:
        return [f"- read it in a shell: `perdure result {run}`"]
    if not state.control.paused:
        return []
    return [
        "- nothing new starts until somebody resumes it: the signal `resume` with `{}`, "
        f"or in a shell `perdure resume {run}`"
    ]


def _refusals(state: LoopState) -> list[str]:
    """What was sent in vain lately, newest last, and how to send it right."""
    control = state.control
    newest = control.refused_signals[-REFUSALS_SHOWN:]
    unseen = control.refused_count - len(newest)
    lines = [f"- refused: {_line(note, 400)}" for note in newest]
    return [*lines, f"- refused before: {unseen:,} more"] if newest and unseen > 0 else lines


def _gate_lines(gate: Gate, *, run: str) -> list[str]:
    """The question as a quote, what it is about as code, and the two ways to answer it."""
    question, _, about = gate.prompt.strip().partition("\n")
    lines = [f"### It waits for a person: {_word(gate.kind)} {gate.name}", ""]
    lines += [f"> {_line(question, 600)}", ""]
    if about.strip():
        # The text may be a model's: a fence in it would end this one.
        lines += ["```", *_about(about.strip().replace("```", "'''"), run=run), "```", ""]
    if gate.choices:
        lines.append(f"- choices: {unpictured(', '.join(gate.choices))}")
    choice = gate.choices[0] if gate.choices else "your text"
    reply = {"gate": gate.name, "choice" if gate.choices else "text": choice}
    # A choice with a backtick ends the code, and what follows it would render.
    quoted = unpictured(shlex.quote(choice))
    lines.append(f"- in a shell: `perdure answer --run {run} {gate.name} {quoted}`")
    if gate.kind == "tool_approval":
        signals = "the signal `approve` or `deny`"
        lines.append(f'- here: More Actions, Send a Signal, {signals} with the input "{gate.name}"')
        return [*lines, "  (or `answer`, with this)", "", "```", json.dumps(reply, indent=1), "```"]
    lines += ["- here: More Actions, Send a Signal, `answer`, with the input", ""]
    return [*lines, "```", json.dumps(reply, indent=1), "```"]


def _question_lines(question: Question, *, run: str) -> list[str]:
    """A question of a run below: who asks, what, and how to answer it from here."""
    choice = question.choices[0] if question.choices else "your text"
    reply = {"gate": question.key, "choice" if question.choices else "text": choice}
    return [
        f"### A run below waits for a person: {_word(question.kind)} {question.gate}",
        "",
        f"> {unpictured(' › '.join(question.path))}: {_line(question.prompt, 600)}",
        "",
        *([f"- choices: {unpictured(', '.join(question.choices))}"] if question.choices else []),
        f"- all of it, in a shell: `perdure gates {run} --full`",
        "- here: More Actions, Send a Signal, `answer`, with the input",
        "",
        *("```", json.dumps(reply, indent=1), "```"),
    ]


def _about(text: str, *, run: str) -> list[str]:
    if len(text) <= ABOUT_CHARACTERS:
        return [text]
    left_out = len(text) - ABOUT_CHARACTERS
    more = f"[… {left_out:,} more characters here: perdure gates {run} --full]"
    return [text[:ABOUT_CHARACTERS], more]


def _word(name: str) -> str:
    return name.replace("_", " ").capitalize()


def told_label(label: str | None, *, mark: str | None) -> str | None:
    """The label for the server; a keyed mark instead, if the installation has a key."""
    return label if label is None or mark is None else mark


def search_attributes(
    state: LoopState, *, kind: str, label: str | None, iteration: int
) -> dict[str, str | int | float | None]:
    """Name to value; None means unset."""
    cost = state.budget.spent.cost_or_none
    return {
        "PerdureKind": kind,
        "PerdureLifecycle": lifecycle_of(state),
        "PerdurePhase": phase_of(state),
        # None unsets it: an attribute that is left out keeps its value.
        "PerdureBlockedOn": blocked_on(state),
        "PerdureLabel": None if label is None else label[:SEARCH_ATTRIBUTE_LIMIT],
        "PerdureOutcome": state.outcome,
        "PerdureIteration": iteration,
        "PerdureScore": None if state.best is None else state.best.score,
        "PerdureCostUsd": None if cost is None else float(cost),
    }


def ended_attributes(result: RunResult) -> dict[str, str | int | float | None]:
    """What a list says of a run that ended with this result; the rest stays as it was set."""
    cost = result.spend.cost_usd
    return {
        "PerdureLifecycle": lifecycle(result.outcome),
        "PerdurePhase": "ended",
        # Named, since an attribute that is left out keeps its value.
        "PerdureBlockedOn": None,
        "PerdureOutcome": result.outcome,
        "PerdureIteration": result.iteration_count or len(result.iterations),
        "PerdureScore": None if result.best is None else result.best.score,
        "PerdureCostUsd": None if cost is None else float(cost),
    }
