"""What the REST interface is handed, and the rules that its operator sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from perdure.domain.installation.single_sign_on import SingleSignOn
from perdure.interfaces.services import Services
from perdure.submission.types import Surroundings

DOCUMENT = "docs"
METRICS = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRules:
    """How much a caller may ask for.

    Args:
        rate_per_minute: requests of one token (or, without one, of one address) a minute.
        body_bytes: the longest body.
        streams: event streams that one token may hold open.
        origins: pages that a browser may call from; none: no page of another origin.
        public: what answers without a token beside health: `docs`, `metrics`.
        separate_approver: whoever starts a run may not approve its tool calls.
        page_url: where browsers reach the page; None: at the address that they call.
    """

    rate_per_minute: int = 600
    body_bytes: int = 1024 * 1024
    streams: int = 32
    origins: tuple[str, ...] = ()
    public: frozenset[str] = frozenset()
    separate_approver: bool = False
    page_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSite:
    """One connected installation, as the REST interface sees it.

    Args:
        services: what every interface is handed.
        surroundings: where submissions are made; its folder is None, so no file is read.
        rules: what the operator allows.
        now: the clock.
        version: of the product.
        single_sign_on: where people sign in to the page, besides with a token.
        in_use: notes that somebody uses the embedded services, so that they stay.
    """

    services: Services
    surroundings: Surroundings
    now: Callable[[], datetime]
    version: str
    rules: ApiRules = field(default_factory=ApiRules)
    single_sign_on: SingleSignOn | None = None
    in_use: Callable[[], None] = lambda: None
