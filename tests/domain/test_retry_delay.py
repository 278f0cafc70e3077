"""How long a failed call waits: as the provider wishes, within bounds, else longer each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.llm.errors import MAX_RETRY_AFTER_S, retry_delay


def delay(attempt: int = 1, *, wish: float | None = None, jitter: float = 1.0) -> float:
    return retry_delay(
        attempt=attempt, retry_after_s=wish, initial_s=1.0, maximum_s=30.0, jitter=jitter
    )


@pytest.mark.parametrize(
    ("wish", "waits"),
    [
        pytest.param(2.0, 2.1, id="a little longer than wished"),
        pytest.param(299.0, 299.1, id="just within the bound"),
        pytest.param(10.0**8, 300.0, id="three years"),
        pytest.param(float("inf"), 300.0, id="for ever"),
        pytest.param(0.0, 1.0, id="none"),
        pytest.param(-7.0, 1.0, id="in the past"),
        pytest.param(None, 1.0, id="no wish"),
    ],
)
def test_the_providers_wish_counts_within_its_bound(wish: float | None, waits: float) -> None:
    assert delay(wish=wish) == pytest.approx(waits)


def test_without_a_wish_it_doubles_up_to_its_bound() -> None:
    attempts = (1, 2, 3, 5, 6, 2_000)
    assert [delay(attempt) for attempt in attempts] == [1.0, 2.0, 4.0, 16.0, 30.0, 30.0]
    assert delay(3, jitter=0.8) == pytest.approx(3.2)


@given(
    st.integers(0, 1_000),
    st.none() | st.floats(allow_nan=False),
    st.floats(min_value=0.8, max_value=1.2),
)
def test_no_wait_is_negative_or_endless(attempt: int, wish: float | None, jitter: float) -> None:
    assert 0 < delay(attempt, wish=wish, jitter=jitter) <= MAX_RETRY_AFTER_S + 1
