"""Where the money of a loop goes: what $1.50 become, one saving after the other.

The prompts of a refine run are priced as a loop would send them that resends everything and judges
everything, then with one saving more in each line, down to what the run sent.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from benchmarks.tokens import PRICE, naive_prompts, plain_cost
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage

WHOLE_USD = Decimal("1.50")
STEPS = (
    "everything is resent, everything is judged",
    "the last draft and what is held against it, not the history",
    "of the last draft what the findings are about",
    "the judge sees what changed",
    "no judge where nothing changed or nothing is in doubt",
    "the task read from the provider's cache",
    "of which is output, that nothing here makes less",
)


class Iteration(FrozenModel):
    """The sizes of one iteration in tokens.

    `told` is the feedback that its draft was followed by, `task` what its prompt begins with.
    `asked` is the judge's prompt as it was sent, 0 where none was; `whole` as it is for all.
    """

    prompt: int
    output: int
    told: int
    task: int
    asked: int
    whole: int
    verdict: int


class Step(FrozenModel):
    """What the same loop costs after one saving more, in dollars."""

    name: str
    usd: Decimal


def account(iterations: Sequence[Iteration]) -> tuple[Step, ...]:
    """The cost after each saving, scaled so that the loop without any costs `WHOLE_USD`."""
    costs = list(_costs(iterations))
    steps = zip(STEPS, costs, strict=True)
    return tuple(Step(name=name, usd=WHOLE_USD * cost / costs[0]) for name, cost in steps)


def _costs(iterations: Sequence[Iteration]) -> Iterator[Decimal]:
    sent = [one.prompt for one in iterations]
    outputs = [one.output for one in iterations]
    told = [one.told for one in iterations[:-1]]
    last = [sent[0] + draft + said for draft, said in zip(outputs, told, strict=False)]
    verdicts = sum(one.verdict for one in iterations)
    # A judge that is asked every time answers every time, as long as it does on average.
    judged = [one for one in iterations if one.asked]
    always = verdicts * len(iterations) // max(1, len(judged))
    whole = plain_cost([one.whole for one in iterations], [always])
    changed = plain_cost([one.asked or one.whole for one in iterations], [always])
    needed = plain_cost([one.asked for one in iterations], [verdicts])
    yield plain_cost(naive_prompts(sent[0], outputs, told), outputs) + whole
    yield plain_cost([sent[0], *last], outputs) + whole
    yield plain_cost(sent, outputs) + whole
    yield plain_cost(sent, outputs) + changed
    yield plain_cost(sent, outputs) + needed
    written, read = iterations[0].task, sum(one.task for one in iterations[1:])
    cached = Usage(
        input_tokens=sum(sent) - written - read,
        cache_write_5m_tokens=written,
        cache_read_tokens=read,
        output_tokens=sum(outputs),
    )
    yield PRICE.cost(cached) + needed
    yield plain_cost([0], [sum(outputs) + verdicts])
