"""The end of the demo: what was reached, what it cost, where to look, what to try next."""

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
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
)
from perdure.interfaces.cli.views.result import spend_words
from perdure.interfaces.formatting import plural, score, sparkline

NEXT = (
    ('perdure new "a haiku about rain, 3 lines"', "writes a task file with checks"),
    ("perdure run FILE --dry-run", "shows the plan and the worst case"),
    ("perdure demo --seeds 10", "measures the loop at equal spend"),
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
