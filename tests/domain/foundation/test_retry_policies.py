"""How long a provider that fails is asked again before its fallback is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.retry_policies import (
    FAILOVER_AFTER_S,
    FAILOVER_ATTEMPTS,
    POLICIES,
    PROVIDER_ATTEMPTS,
    is_last,
)

SECONDS = st.floats(0, 10_000)


@pytest.mark.parametrize(
    ("failures", "waited", "pause", "patience", "last"),
    [
        pytest.param(1, 0.0, 2.0, 20.0, False, id="the first failure"),
        pytest.param(2, 2.5, 4.0, 20.0, True, id="the second"),
        pytest.param(1, 0.0, 60.1, 20.0, True, id="the provider wants a minute"),
        pytest.param(1, 0.0, 60.1, None, False, id="a minute, and nobody else to ask"),
        pytest.param(1, 0.0, 20.0, 20.0, False, id="exactly as long as allowed"),
        pytest.param(1, 19.0, 2.0, 20.0, True, id="it has failed for long"),
        pytest.param(1, 0.0, 0.1, 0.0, True, id="no patience at all"),
    ],
)
def test_a_model_with_a_fallback_is_left_early(failures, waited, pause, patience, last) -> None:
    assert last is is_last(
        failures=failures,
        tries=FAILOVER_ATTEMPTS,
        waited_s=waited,
        pause_s=pause,
        patience_s=patience,
    )


@given(st.integers(1, 20), st.integers(1, 20), SECONDS, SECONDS)
def test_without_a_fallback_attempts_alone_count(
    failures: int, tries: int, waited: float, pause: float
) -> None:
    last = is_last(failures=failures, tries=tries, waited_s=waited, pause_s=pause, patience_s=None)
    assert last is (failures >= tries)


def test_the_table_names_the_figures() -> None:
    policy = POLICIES["model"]
    assert (policy.provider, policy.failover) == (PROVIDER_ATTEMPTS, FAILOVER_ATTEMPTS) == (8, 2)
    assert policy.failover_after_s == FAILOVER_AFTER_S == 20.0
