"""What the REST interface is given, and the rules that its operator sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from perdure.domain.installation.single_sign_on import SingleSignOn
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.services import Services
from perdure.submission.types import Surroundings

DOCUMENT = "docs"
METRICS = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRules:
    """How much a caller may do.

    Args:
        rate_per_minute: requests of one token (or, without one, of one address) a minute.
        body_bytes: the longest body.
        streams: event streams that one token may hold open.
        origins: origins of pages that may call the API from a browser; empty: only its own.
        public: what needs no token besides health: `docs`, `metrics`.
        separate_approver: whoever starts a run may not approve its tool calls.
        page_url: the public address of the page; None: the address of the request.
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
        services: what every interface is given.
        surroundings: where submissions are made; its folder is None, so no file is read.
        rules: what the operator allows.
        now: the clock.
        version: of the product.
        single_sign_on: where people can sign in to the page instead of using a token.
        in_use: records activity, so that idle embedded services do not stop.
    """

    services: Services
    surroundings: Surroundings
    now: Callable[[], datetime]
    version: str
    rules: ApiRules = field(default_factory=ApiRules)
    single_sign_on: SingleSignOn | None = None
    in_use: Callable[[], None] = lambda: None

    @property
    def trail(self) -> AuditTrail:
        """Writes down who decided what; one that is kept notes each use of a token once an hour."""
        return AuditTrail(self.services.audit, now=self.now)
