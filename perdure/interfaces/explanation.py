"""Why a run stopped, what would have changed that, and what more money would likely buy.

All of it comes from the run's own result and records; an estimate says what it rests on.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from perdure.domain.evaluation.outcomes import retry_helps
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.child_runs import is_child
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.formatting import plural

_COUNTED = re.compile(r"(?P<dimension>tokens|output_tokens|cost): (?P<used>\d+(?:\.\d+)?) of ")
STEP_USD = Decimal("0.10")
RECENT = 3
FADING = 0.5
LIMITED = frozenset({"best_effort", "out_of_budget", "deadline", "regressed", "stopped"})


class Outlook(FrozenModel):
    """What `usd` more would likely buy; `gain` is None where nothing can be said."""

    usd: Decimal = STEP_USD
    iterations: int | None = None
    gain: float | None = None
    sentence: str


class Explanation(FrozenModel):
    """The answer to `perdure explain`."""

    run: str
    outcome: str
    reason: str
    why: str
    would_change: tuple[str, ...]
    outlook: Outlook


def explain_run(result: RunResult, records: Sequence[IterationRecord]) -> Explanation:
    return Explanation(
        run=result.id,
        outcome=result.outcome,
        reason=result.reason,
        why=_why(result),
        would_change=_would_change(result, records),
        outlook=outlook(result, records),
    )


def outlook(result: RunResult, records: Sequence[IterationRecord]) -> Outlook:
    """What 0.10 USD more would likely buy: iterations at the mean cost, with fading gains."""
    best = result.best.score if result.best else None
    costs = [record.cost_usd for record in records]
    if not records:
        return Outlook(sentence="No iteration was completed, so nothing can be estimated.")
    if any(cost is None for cost in costs):
        return Outlook(sentence="The price of the model is unknown, so nothing can be estimated.")
    if best is not None and best >= 1:
        return Outlook(iterations=0, gain=0.0, sentence="Nothing: the score is already 1.00.")
    mean = sum((cost for cost in costs if cost is not None), Decimal(0)) / len(records)
    count = None if mean == 0 else int(STEP_USD / mean)
    if best is None:
        return Outlook(iterations=count, sentence=f"{_affords(count, mean)} Nothing was scored.")
    gain = _likely_gain(records, best, count)
    return Outlook(
        iterations=count,
        gain=gain,
        sentence=f"{_affords(count, mean)} {_gain_words(gain, best, records)}",
    )


def gains(records: Sequence[IterationRecord]) -> tuple[float, ...]:
    """The gain of each scored iteration after the first over the best score before it."""
    found: list[float] = []
    best: float | None = None
    for record in records:
        if record.score is None:
            continue
        if best is not None:
            found.append(max(0.0, record.score - best))
        best = record.score if best is None else max(best, record.score)
    return tuple(found)


def _likely_gain(
    records: Sequence[IterationRecord], best: float, count: int | None
) -> float | None:
    """The mean recent gain, halved with each further iteration; at most what is missing to 1."""
    recent = gains(records)[-RECENT:]
    if not recent or count == 0:
        return 0.0 if count == 0 else None
    each = sum(recent) / len(recent) * FADING
    # A free model can go on without end; after 50 halvings nothing is added any more.
    further = 50 if count is None else count
    total = each * (1 - FADING**further) / (1 - FADING)
    return round(min(total, 1 - best), 4)


def _affords(count: int | None, mean: Decimal) -> str:
    if count is None:
        return "This model costs nothing; time is the price."
    if count == 0:
        return f"Not one iteration: one cost {mean:.4f} USD on average."
    noun = "iteration" if count == 1 else "iterations"
    return f"About {count} {noun} at {mean:.4f} USD each."


def _gain_words(gain: float | None, best: float, records: Sequence[IterationRecord]) -> str:
    if gain is None:
        return "With one scored iteration there is no trend to go by."
    count = len(gains(records)[-RECENT:])
    rests = f"estimated from the last {'gain' if count == 1 else f'{count} gains'} of this run"
    if gain < 0.005:
        return f"Likely no better score than {best:.2f} ({rests})."
    return f"Likely {gain:+.2f}, to about {min(1.0, best + gain):.2f} ({rests})."


def _why(result: RunResult) -> str:
    figures = _figures(result)
    if not figures or figures in result.explanation:
        return result.explanation
    return f"{result.explanation} {figures}."


def _figures(result: RunResult) -> str:
    """What ended the run; a limit counts what was held, which no other sum of the run does."""
    told = result.exhausted.figures if result.exhausted else ""
    counted = _COUNTED.match(told)
    if counted is None:
        return told
    spend = result.spend
    spent = {"tokens": spend.tokens, "output_tokens": spend.output_tokens, "cost": spend.cost_usd}
    of = spent[counted["dimension"]]
    held = None if of is None else Decimal(counted["used"]) - of
    if of is None or held is None or held <= 0:
        return told
    return f"{told}, with {held.normalize():f} held for steps that then did not run"


def _would_change(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    tell = _LEVERS.get(result.reason, _LEVERS.get(result.outcome))
    told = tell(result, records) if tell else ()
    return (*told, *_finding_lever(result), *_way_on(result, records))


def _way_on(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    """The command that continues from here."""
    if result.outcome == "failed":
        if is_child(result.id) or not retry_helps(result.outcome, result.reason, result.error):
            return ()
        return (f"Mend the cause, then `perdure retry {result.id}` goes on from there.",)
    best = result.best.iteration if result.best else None
    kept = any(record.index == best and record.state_ref for record in records)
    if result.outcome not in LIMITED or not kept:
        return ()
    command = f"perdure fork {result.id} --from-iteration {best} --set path=value"
    return (f"`{command}` goes on from the best with changed settings.",)


def _finding_lever(result: RunResult) -> tuple[str, ...]:
    if not result.open_findings or result.quality_met:
        return ()
    names = dict.fromkeys(str(finding.get("dimension", "")) for finding in result.open_findings)
    listed = ", ".join(name for name in names if name)
    count = len(result.open_findings)
    return (f"{plural(count, 'finding')} {'is' if count == 1 else 'are'} open, in: {listed}.",)


Lever = Callable[[RunResult, Sequence[IterationRecord]], tuple[str, ...]]


def _quality(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    best = max((record.score or 0.0 for record in records), default=0.0)
    if best >= 1:
        return ("Nothing: every check passed.",)
    return (f"A `refine.quality_threshold` above {best:.2f} would have made it go on.",)


def _iterations(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    count = result.iteration_count or len(records)
    setting = "`refine.max_iterations` or `agent.max_iterations`"
    if result.kind == "roles":
        setting = "`roles.max_iterations`, or the definition's own"
    told = f"A limit above {count} ({setting})."
    recent = gains(records)[-1:]
    last = f" The last iteration gained {recent[0]:.2f}." if recent else ""
    return (told + last,)


def _little_gain(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    recent = gains(records)[-1:]
    last = f" (the last gain was {recent[0]:.2f})" if recent else ""
    return (
        f"A lower `refine.improvement_threshold`{last}, or more `refine.patience`.",
        "`--guidance` that tells the model what the findings do not.",
    )


def _budget(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    name = "cost_usd" if result.reason == "cost" else result.reason
    figures = _figures(result)
    used = f" ({figures})" if figures else ""
    told = [f"A higher `budget.{name}`{used}, given at the start or by `perdure amend`."]
    if records and name == "tokens":
        mean = sum(record.usage.counted_tokens() for record in records) // len(records)
        told.append(f"One iteration used {mean:,} tokens on average.")
    return (*told, "`budget.on_exhausted: ask` would have asked you instead of ending.")


def _fixed(*sentences: str) -> Lever:
    return lambda _result, _records: sentences


def _approval(result: RunResult, records: Sequence[IterationRecord]) -> tuple[str, ...]:
    if result.kind == "roles":
        return ("Nothing: the review approved.",)
    return ("Another answer to the question that a person approved it with.",)


_LEVERS: Mapping[str, Lever] = {
    "quality_met": _quality,
    "all_items_pass": _fixed("Nothing: every item passed."),
    "max_iterations": _iterations,
    "diminishing_returns": _little_gain,
    "plateau": _little_gain,
    "repeated_output": _fixed(
        "The model gave the same output again: other words in the goal, `--guidance`, or another "
        "model would change that; more iterations would not."
    ),
    "unpriced_model": _fixed(
        "A price for the model, `budget.unknown_price: unverified`, or no cost limit."
    ),
    "out_of_budget": _budget,
    "deadline": _budget,
    "regressed": _fixed(
        "A higher `refine.regression_threshold`, or `refine.abort_on_regression: false`; the best "
        "result was kept."
    ),
    "stopped": _fixed("Nobody stopping it; `perdure pause` would have kept it waiting instead."),
    "unanswered": _fixed("An answer in time: `perdure gates` lists what waits for a person."),
    "goal_achieved": _fixed("Nothing: the judge found the goal achieved."),
    "rework_exhausted": _fixed(
        "`perdure answer GATE retry` with a note for the next round, other words in the role's "
        "prompt, or another model; more rounds of the same would not."
    ),
    "stage_failed": _fixed(
        "`perdure retry` does the stage again that failed; the stages before it stay as they are."
    ),
    "blocked": _fixed("An answer to its question: `perdure gates` lists what waits."),
    "tool_misuse": _fixed(
        "Tools that fit the task (`tools.allow`), or a model that follows the ones it is given."
    ),
    "no_output": _fixed("A goal that asks for something to be written down."),
    "model_error": _fixed("A model that answers: `perdure doctor` looks at it."),
    "recovered": _fixed("A model that answers: `perdure doctor` looks at it."),
    "refusal": _fixed("Other words in the goal, or another model."),
    "evaluator_failed": _fixed("Checks in place of a judge, or another evaluator model."),
    "hook_failed": _fixed("A hook that works, or `on_error: continue` in `hooks.adapt`."),
    "internal": _fixed("Nothing on your side; `perdure logs worker` holds the details."),
    "failed": _fixed("What the error names; `perdure logs worker` holds the details."),
    "read_only": _fixed("`refine.classify: off` would have had the answer evaluated and refined."),
    "approved": _approval,
    "accepted": _fixed("Nothing: the definition of done was met."),
    "best_effort": _fixed(
        "`--guidance` with what the run does not know, another model, or a smaller goal."
    ),
    "text_answer": _fixed("Nothing: the agent loop ends when the model answers in text."),
}
