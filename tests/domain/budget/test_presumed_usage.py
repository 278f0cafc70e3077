"""What a lost attempt is booked at: the prompt exactly, the output by what is known of it."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.allowances import presumed, typical_output
from perdure.domain.llm.usage import Usage

HEAD = Usage(input_tokens=10, cache_read_tokens=90)


@pytest.mark.parametrize(
    ("streamed", "typical", "output"),
    [
        pytest.param(None, None, 1_024, id="nothing known, no answer yet"),
        pytest.param(4_000, None, 8_000, id="nothing known, long answer"),
        pytest.param(None, 200, 400, id="no answer yet"),
        pytest.param(40, 200, 400, id="shorter than its like so far"),
        pytest.param(400, 200, 800, id="longer than its like"),
        pytest.param(8_000, 200, 8_192, id="never above its limit"),
    ],
)
def test_the_output_is_twice_what_is_known(
    streamed: int | None, typical: int | None, output: int
) -> None:
    seen = None if streamed is None else HEAD.model_copy(update={"output_tokens": streamed})
    usage = presumed(seen, prompt_tokens=100, max_tokens=8_192, typical_output=typical)
    assert usage.output_tokens == output
    assert usage.prompt_tokens == 100


@pytest.mark.parametrize(
    ("replies", "tokens", "expected"),
    [
        pytest.param(0, 0, 512, id="none yet"),
        pytest.param(1, 20, 348, id="one short reply says little"),
        pytest.param(1, 4_000, 1_675, id="one long reply"),
        pytest.param(200, 20_000, 105, id="many replies are their own mean"),
    ],
)
def test_the_length_to_expect_is_the_mean_that_few_replies_hardly_move(
    replies: int, tokens: int, expected: int
) -> None:
    assert typical_output(replies=replies, tokens=tokens) == expected


LENGTHS: dict[str, Callable[[random.Random], float]] = {
    "all alike": lambda _: 300,
    "short and long alike": lambda chance: chance.uniform(20, 800),
    "many short": lambda chance: chance.expovariate(1 / 300),
    "a few very long": lambda chance: chance.lognormvariate(5.3, 1),
    "long": lambda chance: chance.expovariate(1 / 1_500),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_after_twenty_deaths_the_sum_is_near_the_bill(
    lengths: Callable[[random.Random], float],
) -> None:
    """The provider bills each lost reply in full; a long one is the likelier to be lost."""
    for seed in range(40):
        chance = random.Random(f"{seed}")
        billed, booked = 0, 0
        said: list[int] = []
        for _ in range(20):
            plain, *offered = (min(8_192, max(5, round(lengths(chance)))) for _ in range(10))
            said.append(plain)
            lost = chance.choices(offered, weights=offered)[0]
            usage = presumed(
                HEAD.model_copy(update={"output_tokens": round(chance.random() * lost)}),
                prompt_tokens=0,
                max_tokens=8_192,
                typical_output=typical_output(replies=len(said), tokens=sum(said)),
            )
            said.append(lost)  # the attempt after it says the same
            billed += cost(plain) + 2 * cost(lost)
            booked += cost(plain) + cost(usage.output_tokens) + cost(lost)
        assert billed <= booked <= 1.5 * billed, (seed, booked / billed)


def cost(output: int) -> int:
    """Of a call with 2,000 tokens of prompt, where output costs five times as much."""
    return 2_000 + 5 * output


def test_the_prompt_is_as_the_provider_told_it() -> None:
    usage = presumed(HEAD, prompt_tokens=120, max_tokens=100, typical_output=10)
    assert (usage.input_tokens, usage.cache_read_tokens) == (10, 90)
    unknown = presumed(Usage(), prompt_tokens=120, max_tokens=100, typical_output=10)
    assert unknown.input_tokens == 120


@given(st.integers(0, 9_000), st.none() | st.integers(0, 9_000), st.integers(16, 8_192))
def test_it_is_never_below_what_was_streamed_nor_above_the_limit(
    streamed: int, typical: int | None, limit: int
) -> None:
    seen = HEAD.model_copy(update={"output_tokens": min(streamed, limit)})
    usage = presumed(seen, prompt_tokens=1, max_tokens=limit, typical_output=typical)
    assert seen.output_tokens <= usage.output_tokens <= limit
