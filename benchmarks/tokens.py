"""B3: tokens and money of a refine run, against a conversation that resends everything it said.

The run is made once and its sizes are read from the journal. What the naive loop would have sent
for the same drafts and the same feedback follows from them, so both end on the same score.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate

import yaml

from benchmarks.scene import padded
from benchmarks.sides import PLENTY_S, PLENTY_TOKENS, PLENTY_USD
from benchmarks.site import Site
from perdure.domain.base import Frozen
from perdure.domain.models import Price
from perdure.domain.ports import AttemptRow
from perdure.domain.result import RunResult
from perdure.domain.run import RUN_SPEC
from perdure.domain.usage import Usage

AT = (3, 5, 10, 20)
# About 2,000 tokens of input, 500 of demands, and 1,500 of output.
INPUT_CHARACTERS = 9_000
DRAFT_CHARACTERS = 6_750
POINT_CHARACTERS = 100
INPUT_PRICE, OUTPUT_PRICE = 3.0, 15.0
PRICE = Price(
    input_per_million=Decimal(str(INPUT_PRICE)), output_per_million=Decimal(str(OUTPUT_PRICE))
)


class Saving(Frozen):
    """Ratios of our sums to the naive ones after `iterations`.

    `cached_ratio` is the cost where the provider keeps prompts in its cache, which suits a prompt
    that only grows better than one that is written anew.
    """

    iterations: int
    input_ratio: float
    cost_ratio: float
    cached_ratio: float


class Savings(Frozen):
    """The result of B3; sizes in tokens, by iteration."""

    prompts: tuple[int, ...]
    naive_prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    score: float | None
    savings: tuple[Saving, ...]


async def measure_tokens(site: Site, *, iterations: int, on_run: Callable[[str], None]) -> Savings:
    """Refine for so many iterations, each of which adds one of the points that are wanted."""
    on_run(f"B3: refine, {iterations} iterations")
    script = await site.stores.blobs.put(yaml.safe_dump(_script(iterations)).encode())
    run = await site.gateway.start(
        RUN_SPEC.validate_python(_spec(iterations, f"scripted:{script}")), run_id="b3-refine"
    )
    result = await site.gateway.result(run)
    rows = await site.stores.journal.rows(run)
    if len(rows) != iterations:
        raise RuntimeError(
            f"The refine run made {len(rows)} model calls, not {iterations}: it ended "
            f"{result.outcome}/{result.reason}. {result.explanation}"
        )
    return _savings(rows, result)


def naive_prompts(prompts: Sequence[int], outputs: Sequence[int]) -> tuple[int, ...]:
    """The prompts of a conversation that keeps every draft and all feedback.

    Args:
        prompts: the sizes that were sent; the first is the task alone.
        outputs: the sizes of the drafts.
    """
    first = prompts[0]
    added = [
        draft + max(0, prompt - first - draft)
        for prompt, draft in zip(prompts[1:], outputs[:-1], strict=True)
    ]
    return tuple(accumulate(added, initial=first))


def cached_cost(prompts: Sequence[int], outputs: Sequence[int], *, known: Sequence[int]) -> Decimal:
    """The price where `known` tokens of each prompt are read from the cache, the rest written."""
    usage = Usage(
        cache_read_tokens=sum(known),
        cache_write_5m_tokens=sum(prompts) - sum(known),
        output_tokens=sum(outputs),
    )
    return PRICE.cost(usage)


def plain_cost(prompts: Sequence[int], outputs: Sequence[int]) -> Decimal:
    """The price without a cache."""
    return PRICE.cost(Usage(input_tokens=sum(prompts), output_tokens=sum(outputs)))


def _savings(rows: Sequence[AttemptRow], result: RunResult) -> Savings:
    prompts = tuple(row.usage.prompt_tokens for row in rows)
    outputs = tuple(row.usage.output_tokens for row in rows)
    naive = naive_prompts(prompts, outputs)
    return Savings(
        prompts=prompts,
        naive_prompts=naive,
        outputs=outputs,
        score=result.best.score if result.best else None,
        savings=tuple(
            _saving(rows[:count], naive[:count], outputs[:count])
            for count in AT
            if count <= len(rows)
        ),
    )


def _saving(rows: Sequence[AttemptRow], naive: Sequence[int], outputs: Sequence[int]) -> Saving:
    prompts = [row.usage.prompt_tokens for row in rows]
    cost = sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0))
    # The Messages adapter marks the task, which begins each of our prompts; the naive prompt
    # begins with the whole one before it.
    ours = cached_cost(prompts, outputs, known=[0, *prompts[:1] * (len(prompts) - 1)])
    theirs = cached_cost(naive, outputs, known=[0, *naive[:-1]])
    return Saving(
        iterations=len(rows),
        input_ratio=sum(prompts) / sum(naive),
        cost_ratio=float(cost / plain_cost(naive, outputs)),
        cached_ratio=float(ours / theirs),
    )


def _point(number: int) -> str:
    return padded(f"Point {number:02d} of the report:", POINT_CHARACTERS)


def _draft(points: int) -> str:
    made = "\n".join(_point(number) for number in range(1, points + 1))
    return padded(f"{made}\n", DRAFT_CHARACTERS)


def _script(iterations: int) -> dict[str, object]:
    return {
        "price": {"input_per_million": INPUT_PRICE, "output_per_million": OUTPUT_PRICE},
        "replies": [{"text": _draft(points)} for points in range(1, iterations + 1)],
    }


def _spec(iterations: int, model: str) -> dict[str, object]:
    rubric = [
        {
            "name": f"point_{number:02d}",
            "hint": _point(number),
            "evaluator": {"check": "contains", "all": [_point(number)]},
        }
        for number in range(1, iterations + 1)
    ]
    return {
        "kind": "refine",
        "goal": "Write the report.",
        "context": {"notes": padded("Notes for the report:", INPUT_CHARACTERS)},
        "models": {"executor": model},
        "tools": {"access": "minimal"},
        "rubric": rubric,
        "refine": {
            "pattern": "improvement",
            "max_iterations": iterations,
            "plan": "off",
            "classify": "off",
        },
        "budget": {"tokens": PLENTY_TOKENS, "cost_usd": PLENTY_USD, "active_time": PLENTY_S},
        "recall": False,
        "learn": False,
    }
