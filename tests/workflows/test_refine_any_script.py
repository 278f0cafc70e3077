"""Any script of scores ends, spends within its budget, and returns the best."""

import random
from decimal import Decimal

import pytest
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, judged, spec, verdict

from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult

SEEDS = range(24)
TENTHS = [tenth / 10 for tenth in range(11)]
BAD_VERDICT = "I like it very much."


def random_run(chance: random.Random) -> tuple[dict[str, object], dict[str, object]]:
    """A specification and a script, both arbitrary within what is valid."""
    is_judged = chance.random() < 0.5
    limit = chance.randint(1, 6)
    settings: dict[str, object] = {
        "pattern": chance.choice(["confidence", "confidence", "improvement", "checklist"]),
        "max_iterations": limit,
        "min_iterations": chance.randint(1, limit),
        "improvement_threshold": chance.choice([None, 0.05, 0.2]),
        "regression_threshold": chance.choice([0.0, 0.2, 1.0]),
        "compare_with": chance.choice(["previous", "best"]),
    }
    budget = chance.choice(
        [{}, {"model_calls": chance.randint(1, 6)}, {"tokens": chance.randint(500, 20_000)},
         {"cost_usd": chance.choice([0.001, 0.01])}, {"iterations": chance.randint(1, 3)}]
    )  # fmt: skip
    given = spec([WORDS_CHECK, TONE] if is_judged else [WORDS_CHECK], **settings)
    given |= {"budget": budget, "tools": {"access": "minimal"}}
    return given, {
        "price": {"input_per_million": 3, "output_per_million": 15},
        "max_output": 200,
        "exhausted": "repeat_last",
        "replies": [*_executor(chance), *_evaluator(chance)],
    }


def _executor(chance: random.Random) -> list[dict[str, object]]:
    when = {"role": "executor"}
    said: list[dict[str, object]] = []
    for number in range(8):
        if chance.random() < 0.12:
            said.append({"when": when, "error": "refusal"})
        else:
            mark = chance.choice([f"mark{number}", "again"])
            said.append({"when": when, "text": draft(chance.choice(TENTHS), mark)})
    return said


def _evaluator(chance: random.Random) -> list[dict[str, object]]:
    verdicts = [verdict(chance.choice(TENTHS)) for _ in range(12)]
    return judged(*(BAD_VERDICT if chance.random() < 0.15 else one for one in verdicts))


def _returned_the_best(result: RunResult) -> None:
    scored = [
        (record.score, record.index) for record in result.iterations if record.score is not None
    ]
    if not scored:
        assert result.best is None or result.best.score is None
        return
    assert result.best is not None
    assert (result.best.score, result.best.iteration) == max(scored)
    record = result.iterations[result.best.iteration - 1]
    assert result.best.output_ref == record.output_ref
    if result.reason != "all_items_pass":
        assert result.output_ref == record.output_ref


async def _within_budget(site: Installation, result: RunResult, given: dict[str, object]) -> None:
    rows = await site.parts.stores.journal.rows(result.id)
    assert sum((row.usage for row in rows), Usage()) == result.spend.usage
    assert sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0)) == result.spend.cost_usd
    limits = given["budget"]
    settings = given["refine"]
    assert isinstance(limits, dict)
    assert isinstance(settings, dict)
    assert len(result.iterations) <= min(settings["max_iterations"], limits.get("iterations", 99))
    assert result.spend.model_calls <= limits.get("model_calls", 99)
    assert result.spend.tokens <= limits.get("tokens", 200_000)
    assert result.spend.cost_usd is not None
    assert result.spend.cost_usd <= Decimal(str(limits.get("cost_usd", 2)))


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_any_script_ends_within_budget_with_the_best(site: Installation, seed: int) -> None:
    given, script = random_run(random.Random(seed))
    result = await site.run(given, script)
    assert result.reason in REASONS[result.outcome]
    assert result.explanation
    _returned_the_best(result)
    await _within_budget(site, result, given)
