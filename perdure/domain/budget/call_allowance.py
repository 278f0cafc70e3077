"""What the workflow allows one model call, over all of its attempts."""

from decimal import Decimal

from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.retry_policies import PROVIDER_ATTEMPTS


class Allowance(ActivityMessage):
    """What all attempts of one call may use together, and the time left for it.

    `factor` is the model's calibration of token estimates; `active_time_s` what remains of the
    run's active time, `attempts` what remains of its model calls, `output_tokens` of its output
    (None: unlimited). The provider has `tries`, of which `tried` failed before, under another
    reservation, by `first_step` (empty: this is the first), `waited_s` ago the first of them. It is
    waited for `patience_s` in all (None: as long as it has tries). `typical_output` is the length
    to expect by the run's replies in this role.
    """

    max_tokens: int
    tokens: int | None = None
    cost_usd: Decimal | None = None
    factor: float = 1.0
    active_time_s: float | None = None
    attempts: int | None = None
    output_tokens: int | None = None
    tries: int = PROVIDER_ATTEMPTS
    tried: int = 0
    typical_output: int | None = None
    first_step: str = ""
    patience_s: float | None = None
    waited_s: float = 0.0
