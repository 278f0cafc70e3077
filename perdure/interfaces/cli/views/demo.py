"""How the demo ends: what was reached, what it cost, where to look, what to try next."""

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.cli.best_of_n import Arm, Comparison
from perdure.interfaces.cli.views.layout import (
    BAD,
    DIM,
    GOOD,
    WARN,
    address,
    heading,
    line,
    pairs,
    stack,
    table,
)
from perdure.interfaces.cli.views.result import spend_words
from perdure.interfaces.formatting import plural, score, sparkline
from perdure.interfaces.svg_chart import line_chart, share_scale

NEXT = (
    ('perdure new "a haiku about rain, 3 lines"', "writes a task file with checks"),
    ("perdure run FILE --dry-run", "shows the plan and the worst case"),
    ("perdure demo --seeds 10", "measures the loop against best-of-n"),
    ("perdure up", "keeps the services running"),
)


NOTHING = (
    "No draft was finished.",
    "The model runs on this processor: try again when it is less busy, or watch the same loop with "
    "replies from a script: perdure run product-page --example",
)


def demo_view(result: RunResult, *, web_url: str | None) -> RenderableType:
    """The end of the single run."""
    best = _best_record(result)
    scores = [record.score for record in result.iterations]
    facts: list[tuple[str, Text | str | None]] = [
        ("score", f"{score(result.best.score if result.best else None)}  {sparkline(scores)}"),
        ("spend", spend_words(result.spend)),
    ]
    return stack(
        Text(result.output.rstrip() + "\n") if result.output else None,
        _verdict(result, best),
        pairs(facts),
        address("Web UI", web_url),
        stack(heading("What to try next"), pairs((f"  {what}", why) for what, why in NEXT)),
    )


def comparison_table(comparison: Comparison) -> RenderableType:
    """All arms, iteration by iteration."""
    numbers = tuple(str(number) for number in range(1, comparison.iterations + 1))
    columns = ("arm", *numbers, "all pass", "calls", "output tokens")
    rows = [_row(arm, comparison.seeds) for arm in comparison.arms]
    fair = "the others had as many calls, or tokens, as the loop had used by that iteration"
    return stack(
        heading(f"Mean best score after each iteration, {plural(comparison.seeds, 'seed')}"),
        table(columns, rows, right=columns[1:]),
        line((f"From the runs just made; {fair}.", DIM)),
        *(_unscored(arm) for arm in comparison.arms),
    )


def comparison_chart(comparison: Comparison) -> str:
    """The same as SVG."""
    return line_chart(
        f"Mean best score, {plural(comparison.seeds, 'seed')}, embedded model",
        {arm.name: arm.scores for arm in comparison.arms},
        across="iteration",
        up="score",
        scale=share_scale(),
    )


def _unscored(arm: Arm) -> Text | None:
    if not arm.unscored:
        return None
    runs = plural(arm.unscored, "run")
    return line((f"! {arm.name}: {runs} ended without a score and count as 0 above.", WARN))


def _row(arm: Arm, seeds: int) -> tuple[str, ...]:
    scores = (f"{value:.3f}" for value in arm.scores)
    passes = f"{arm.full_passes} of {seeds}"
    return (arm.name, *scores, passes, f"{arm.calls:.1f}", f"{arm.output_tokens:.0f}")


def _best_record(result: RunResult) -> IterationRecord | None:
    index = result.best.iteration if result.best else None
    return next((record for record in result.iterations if record.index == index), None)


def _verdict(result: RunResult, best: IterationRecord | None) -> Text:
    count = plural(result.iteration_count or len(result.iterations), "iteration")
    if not result.output:
        return line((f"✗ {NOTHING[0]}", BAD), (f"\n  {result.explanation}\n  {NOTHING[1]}", DIM))
    if best is None or not best.dimensions:
        return line((f"✗ {result.explanation}", BAD))
    passed = sum(item.score >= 1 for item in best.dimensions.values())
    total = len(best.dimensions)
    if passed == total:
        return line((f"✓ all {total} checks pass after {count}", GOOD))
    kept = f"● {passed} of {total} checks pass: stopped after {count}, the best one is kept."
    why = f"\n  {result.explanation}\n  A loop that ends on time with its best draft did its work."
    return line((kept, WARN), (why, DIM))
