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
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import Price
from perdure.domain.llm.transcript import Message
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC

AT = (3, 5, 10, 20)
# About 2,000 tokens of input, 500 of demands, and 1,500 of output.
INPUT_CHARACTERS = 9_000
INTRODUCTION_CHARACTERS = 350
SECTIONS, SECTION_CHARACTERS = 10, 620
POINT_CHARACTERS = 100
INPUT_PRICE, OUTPUT_PRICE = 3.0, 15.0
PRICE = Price(
    input_per_million=Decimal(str(INPUT_PRICE)), output_per_million=Decimal(str(OUTPUT_PRICE))
)


class Saving(FrozenModel):
    """Ratios of our sums to the naive ones after `iterations`.

    `cached_ratio` is the cost where the provider keeps prompts in its cache, which suits a prompt
    that only grows better than one that is written anew.
    """

    iterations: int
    input_ratio: float
    cost_ratio: float
    cached_ratio: float


class Savings(FrozenModel):
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
    told = [estimate(messages[-2].text).total for messages in (await said_in(site, result))[1:]]
    return _savings(rows, result, told)


def naive_prompts(first: int, outputs: Sequence[int], told: Sequence[int]) -> tuple[int, ...]:
    """The prompts of a conversation that keeps every draft and all feedback.

    Args:
        first: the size of the first prompt, which is the task alone.
        outputs: the sizes of the drafts.
        told: the sizes of the feedback that each draft but the last is followed by.
    """
    added = [draft + said for draft, said in zip(outputs[:-1], told, strict=True)]
    return tuple(accumulate(added, initial=first))


async def said_in(site: Site, result: RunResult) -> list[tuple[Message, ...]]:
    """The messages of each iteration: the task, the draft as it was shown, the delta, the reply."""
    heads = [record.transcript or "" for record in result.iterations]
    return [await site.stores.transcripts.load(head) for head in heads]


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


def shares(savings: Savings) -> dict[str, tuple[float, ...]]:
    """Tokens and cost without a cache, summed up to each iteration, as shares of the naive ones."""
    counts = range(1, len(savings.prompts) + 1)
    ours, naive, drafts = savings.prompts, savings.naive_prompts, savings.outputs
    return {
        "input tokens": tuple(sum(ours[:count]) / sum(naive[:count]) for count in counts),
        "cost": tuple(
            float(
                plain_cost(ours[:count], drafts[:count]) / plain_cost(naive[:count], drafts[:count])
            )
            for count in counts
        ),
    }


def _savings(rows: Sequence[AttemptRow], result: RunResult, told: Sequence[int]) -> Savings:
    prompts = tuple(row.usage.prompt_tokens for row in rows)
    outputs = tuple(row.usage.output_tokens for row in rows)
    naive = naive_prompts(prompts[0], outputs, told)
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


def report_text(points: int) -> str:
    """A report of ten sections; the first of them have the points that were asked for."""
    opening = padded("This report sums up what the notes say.", INTRODUCTION_CHARACTERS)
    sections = [f"# Report\n\n{opening}"]
    for number in range(1, SECTIONS + 1):
        made = [_point(n) for n in range(number, points + 1, SECTIONS)]
        body = padded(f"Section {number} looks at the plant.", SECTION_CHARACTERS)
        # A point takes the place of as many words, so that all drafts are equally long.
        room = SECTION_CHARACTERS - len(made) * (POINT_CHARACTERS + 2)
        sections.append("\n\n".join([f"## Section {number}", *made, body[:room]]))
    return "\n\n".join(sections)


def _script(iterations: int) -> dict[str, object]:
    return {
        "price": {"input_per_million": INPUT_PRICE, "output_per_million": OUTPUT_PRICE},
        "replies": [{"text": report_text(points)} for points in range(1, iterations + 1)],
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
