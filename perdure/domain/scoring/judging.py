"""What a judge is asked about an output, its verdict, and its share of the tokens."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Decimal

from pydantic import JsonValue

from perdure.domain.budget.accounting import LimitReached
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.outputs.diff import Lines
from perdure.domain.run.activity_messages import JudgeReport
from perdure.domain.run.state import LoopState
from perdure.domain.turns.turn import Ending


def evaluator_limit(state: LoopState, share: float) -> int | None:
    """The evaluator's share of the token budget; None without a limit."""
    limit = state.budget.limits.limit("tokens")
    if limit is None:
        return None
    # In decimals: as floats, 0.29 of 100 tokens are 28.
    return int((limit * Decimal(str(share))).to_integral_value(ROUND_FLOOR))


def judge_room(state: LoopState, *, share: float, prompt_tokens: int, apart: int = 0) -> int | None:
    """The tokens that a judge's reply may have within the share; None without a limit.

    `apart` are tokens of evaluating that are none of the judge's.
    """
    limit = evaluator_limit(state, share)
    return None if limit is None else limit - evaluator_tokens(state) + apart - prompt_tokens


def evaluator_share_refusal(
    state: LoopState, share: float, *, setting: str = "refine.evaluator_share", apart: int = 0
) -> LimitReached:
    """Why the judge is not called any more, and what to do about it."""
    # The run ends here: going on would pay for drafts that nobody scores.
    used, limit = evaluator_tokens(state) - apart, evaluator_limit(state, share) or 0
    note = (
        f"the evaluator used {used:,} of the {limit:,} tokens that are its share ({share:g} of the "
        f"budget), and another judgement does not fit; raise {setting} or budget.tokens"
    )
    return LimitReached(dimension="tokens", spent=Decimal(used), limit=Decimal(limit), note=note)


def evaluator_tokens(state: LoopState) -> int:
    """What the evaluator used so far, as the budget counts it."""
    part = state.by_phase.get("evaluating")
    reads = state.budget.limits.count_cache_reads
    return part.usage.counted_tokens(count_cache_reads=reads) if part else 0


def highest_number(findings: Iterable[Finding], *, least: int) -> int:
    """The highest number of a finding: ids are run-wide (`F1`, `F2`, …), none is given twice."""
    # What people find has ids of another form.
    return max([least, *(int(one.id[1:]) for one in findings if one.id[1:].isdigit())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a judge is asked about an output; `changed` lines make it an excerpt of the rest.

    `model` is the judge that the rubric names, None the run's evaluator; `cut`: the output stops
    before its end. `adaptation` holds the values that were in force when it was written; `given` is
    the highest number that a finding of the run has.
    """

    output: BlobRef
    asked: tuple[str, ...]
    before: Evaluation | None = None
    changed: tuple[Lines, ...] = ()
    model: str | None = None
    given: int = 0
    cut: bool = False
    adaptation: Mapping[str, JsonValue] = field(default_factory=dict)

    def by_judge(self, rubric: Rubric) -> tuple["Question", ...]:
        """One question for each judge with dimensions among those asked for."""
        found: list[Question] = []
        for model, names in rubric.judges.items():
            asked = tuple(name for name in names if name in self.asked)
            if asked:
                found.append(replace(self, asked=asked, model=model))
        return tuple(found)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is open in the dimensions that are asked for."""
        known = self.before.findings if self.before else ()
        return tuple(finding for finding in known if finding.dimension in self.asked)

    @property
    def earlier(self) -> dict[str, str]:
        """How the dimensions were scored before, told with an excerpt only."""
        if not self.changed or self.before is None:
            return {}
        items = [self.before.get(name) for name in self.asked]
        return {
            item.name: f"{item.score:g}" + (f", {item.gap}" if item.gap else "")
            for item in items
            if item is not None and item.score is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgesVerdict:
    """What all judges of one output said together; `ending` says why one of them gave no verdict.

    `cached`: nobody was asked. `prompt_tokens` is what the judges were sent. `slips` are what was
    wrong with the form of verdicts whose scores are taken all the same.
    """

    scores: tuple[DimensionScore, ...] = ()
    resolved: tuple[str, ...] = ()
    cached: bool = False
    prompt_tokens: int = 0
    ending: Ending | None = None
    slips: tuple[str, ...] = ()

    def with_report(self, report: JudgeReport) -> "JudgesVerdict":
        """With what one more judge said."""
        return JudgesVerdict(
            scores=(*self.scores, *report.scores),
            resolved=(*self.resolved, *report.resolved),
            # One judge that was asked makes it a new verdict, whatever the others had said before.
            cached=report.cached and (self.cached or not self.scores),
            prompt_tokens=self.prompt_tokens + report.call.prompt_tokens,
            slips=(*self.slips, *report.problems),
        )
