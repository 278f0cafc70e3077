"""Which limit keeps a run from starting."""

from collections.abc import Mapping

import pytest

from perdure.domain.installation.open_limits import OpenLimits

OPEN: Mapping[str | None, int] = {"acme": 3, "small": 1, None: 2}


@pytest.mark.parametrize(
    ("limits", "tenant", "told"),
    [
        (OpenLimits(), "acme", None),
        (OpenLimits(runs=7), "acme", None),
        (OpenLimits(runs=6), "acme", "6 of 6 runs are open (PERDURE_MAX_OPEN_RUNS)"),
        (OpenLimits(per_tenant=3), "acme", "3 of 3 runs of acme are open"),
        (OpenLimits(per_tenant=3), "small", None),
        (OpenLimits(per_tenant=3), "new", None),
        (OpenLimits(per_tenant=1), None, None),
        (OpenLimits(runs=6, per_tenant=3), "small", "6 of 6 runs are open"),
    ],
    ids=["none", "room", "full", "own full", "other", "new", "no tenant", "both"],
)
def test_the_limit_that_is_reached_is_named(
    limits: OpenLimits, tenant: str | None, told: str | None
) -> None:
    reached = limits.start_refusal(tenant, total=sum(OPEN.values()), own=OPEN.get(tenant, 0))
    assert (reached is None) if told is None else (told in str(reached))
