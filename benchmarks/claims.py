"""The savings that the design of the refine loop claims, each measured in a run that shows it.

One report is written and judged: wholly, twice on what changed, once not at all because it is good
enough, and once not because nothing changed. Sizes come from the journal and the transcripts.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

import yaml

from benchmarks.account import Iteration, Step, account
from benchmarks.scene import padded
from benchmarks.sides import PLENTY_S, PLENTY_TOKENS, PLENTY_USD
from benchmarks.site import Site
from benchmarks.tokens import PRICE, naive_prompts, report_text, said_in
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC

NOTES_CHARACTERS = 2_000
JUDGED = ("tone", "accuracy", "usefulness", "evidence")
KINDS = ["full", "incremental", "incremental", "skipped_confident", "skipped_identical"]
MILLION = 1_000_000


ACCOUNTED = (3, 5)


class Claim(FrozenModel):
    """One claim: the share that is said to be saved, `least` to `most`, and the one found."""

    name: str
    least: float
    most: float
    found: float


class Account(FrozenModel):
    """What a loop of so many iterations costs, one saving after the other."""

    iterations: int
    steps: tuple[Step, ...]


class Claimed(FrozenModel):
    """The claims beside what was found, and what they come to in dollars."""

    claims: tuple[Claim, ...]
    accounts: tuple[Account, ...]


async def measure_claims(site: Site, *, on_run: Callable[[str], None]) -> Claimed:
    """Refine a report that is judged, and compare what was sent with what would have been."""
    on_run("B3: the claims, a report in five iterations with a judge")
    script = await site.stores.blobs.put(yaml.safe_dump(_script()).encode())
    spec = RUN_SPEC.validate_python(_spec(f"scripted:{script}"))
    run = await site.gateway.start(spec, run_id="b3-claims")
    result = await site.gateway.result(run)
    kinds = [record.evaluation for record in result.iterations]
    if kinds != KINDS:
        raise RuntimeError(f"The run was to be evaluated as {KINDS}, and was as {kinds}.")
    rows = await site.stores.journal.rows(run)
    written = [row for row in rows if row.role == "executor"]
    judged = [row for row in rows if row.role == "evaluator"]
    sizes = await _sizes(site, result, written, judged)
    return Claimed(
        claims=(
            *await _writing(site, result, written),
            *_judging(judged),
            await _caching(site, result),
        ),
        accounts=tuple(
            Account(iterations=count, steps=account(sizes[:count])) for count in ACCOUNTED
        ),
    )


async def _sizes(
    site: Site, result: RunResult, written: Sequence[AttemptRow], judged: Sequence[AttemptRow]
) -> list[Iteration]:
    said = await said_in(site, result)
    asked = {row.iteration: row.usage for row in judged}
    # The feedback on a draft stands in the prompt of the next one.
    told = [*(estimate(messages[-2].text).total for messages in said[1:]), 0]
    return [
        Iteration(
            prompt=row.usage.prompt_tokens,
            output=row.usage.output_tokens,
            told=told[number],
            task=estimate(said[number][0].text).total,
            asked=asked[number + 1].prompt_tokens if number + 1 in asked else 0,
            whole=asked[1].prompt_tokens,
            verdict=asked[number + 1].output_tokens if number + 1 in asked else 0,
        )
        for number, row in enumerate(written)
    ]


async def _writing(
    site: Site, result: RunResult, rows: Sequence[AttemptRow]
) -> tuple[Claim, Claim]:
    prompts = [row.usage.prompt_tokens for row in rows]
    outputs = [row.usage.output_tokens for row in rows]
    later = (await said_in(site, result))[1:]
    told = [estimate(messages[-2].text).total for messages in later]
    shown = [estimate(messages[-3].text).total for messages in later]
    naive = naive_prompts(prompts[0], outputs, told)
    return (
        Claim(
            name="context of an iteration after the first",
            least=0.6,
            most=0.8,
            found=_saved(sum(prompts[1:]), sum(naive[1:])),
        ),
        Claim(
            name="previous output, compressed",
            least=0.4,
            most=0.6,
            found=_saved(sum(shown), sum(outputs[:-1])),
        ),
    )


def _judging(rows: Sequence[AttemptRow]) -> tuple[Claim, Claim]:
    asked = {row.iteration: row.usage.prompt_tokens for row in rows}
    whole, partial = asked[1], [asked[2], asked[3]]
    skipped = sum(asked.get(iteration, 0) for iteration in (4, 5))
    return (
        Claim(
            name="evaluation of local changes",
            least=0.4,
            most=0.7,
            found=_saved(sum(partial), len(partial) * whole),
        ),
        Claim(name="evaluation that is skipped", least=1, most=1, found=_saved(skipped, 2 * whole)),
    )


async def _caching(site: Site, result: RunResult) -> Claim:
    """The price of what each prompt begins with, where a provider reads it from its cache."""
    begun = {messages[0].text for messages in await said_in(site, result)}
    # A beginning that differed once would be written to the cache again, and not be read from it.
    read = Usage(cache_read_tokens=MILLION) if len(begun) == 1 else Usage(input_tokens=MILLION)
    share = PRICE.cost(read) / PRICE.cost(Usage(input_tokens=MILLION))
    return Claim(
        name="price of the cached prefix", least=0.9, most=0.9, found=float(Decimal(1) - share)
    )


def _saved(sent: float, naive: float) -> float:
    return 1 - sent / naive


def _draft(edition: int) -> str:
    """The report with two of its ten sections written anew in each edition."""
    text = report_text(0)
    for section in (3, 5):
        old = f"Section {section} looks at the plant."
        text = text.replace(old, padded(f"Section {section}, edition {edition}.", len(old)))
    return text


def _verdict(finding: bool, **scores: float) -> dict[str, object]:
    rows = [
        {"name": name, "score": score, "gap": "" if score == 1 else "not all of it is plain"}
        for name, score in scores.items()
    ]
    found = {
        "severity": "important",
        "dimension": "tone",
        "title": "stiff",
        "fix": "Say it as to a neighbour.",
        "location": "Section 5",
    }
    resolved = [] if finding else ["F1"]
    return {"dimensions": rows, "findings": [found] if finding else [], "resolved": resolved}


def _script() -> dict[str, object]:
    drafts = [_draft(edition) for edition in (1, 2, 3, 4, 4)]
    first = {name: 0.6 if name == "tone" else 0.9 for name in JUDGED}
    verdicts = [_verdict(True, **first), _verdict(False, tone=0.7), _verdict(False, tone=1.0)]
    return {
        "price": {"input_per_million": 3.0, "output_per_million": 15.0},
        "replies": [
            *({"when": {"role": "executor"}, "text": text} for text in drafts),
            *({"when": {"role": "evaluator"}, "json": said} for said in verdicts),
        ],
    }


def _spec(model: str) -> dict[str, object]:
    judged = [{"name": name, "evaluator": {"judge": {}}} for name in JUDGED]
    check = {"name": "report", "evaluator": {"check": "contains", "all": ["# Report"]}}
    return {
        "kind": "refine",
        "goal": "Write the report on the plant from the notes.",
        "context": {"notes": padded("Notes for the report:", NOTES_CHARACTERS)},
        "models": {"executor": model},
        "tools": {"access": "minimal"},
        "rubric": [check, *judged],
        "refine": {
            "max_iterations": 5,
            "min_iterations": 5,
            "quality_threshold": 0.85,
            "improvement_threshold": None,
            "skip_eval_confidence": 0.9,
            "plan": "off",
            "classify": "off",
        },
        "budget": {"tokens": PLENTY_TOKENS, "cost_usd": PLENTY_USD, "active_time": PLENTY_S},
        "recall": False,
        "learn": False,
    }
