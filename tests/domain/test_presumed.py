"""What a lost attempt is booked at: the prompt exactly, the output by what is known of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.presumed import FIRST_REPLY_TOKENS, presumed
from perdure.domain.usage import Usage

HEAD = Usage(input_tokens=10, cache_read_tokens=90)


@pytest.mark.parametrize(
    ("streamed", "typical", "output"),
    [
        pytest.param(None, None, FIRST_REPLY_TOKENS, id="first call, no answer yet"),
        pytest.param(4_000, None, 6_000, id="first call, long answer"),
        pytest.param(None, 200, 300, id="no answer yet"),
        pytest.param(40, 200, 300, id="shorter than its like so far"),
        pytest.param(400, 200, 600, id="longer than its like"),
        pytest.param(8_000, 200, 8_192, id="never above its limit"),
    ],
)
def test_the_output_is_half_as_much_again_as_what_is_known(
    streamed: int | None, typical: int | None, output: int
) -> None:
    seen = None if streamed is None else HEAD.model_copy(update={"output_tokens": streamed})
    usage = presumed(seen, prompt_tokens=100, max_tokens=8_192, typical_output=typical)
    assert usage.output_tokens == output
    assert usage.prompt_tokens == 100


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
