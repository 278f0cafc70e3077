"""Provider and transport errors as facts, which policies then interpret.

Nothing here matches words in messages: adapters fill the fields from status codes and error types.
"""

from typing import ClassVar, Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.llm.usage import Usage

ModelErrorKind = Literal[
    "rate_limited",
    "overloaded",
    "server",
    "connection",
    "timeout",
    "cut",
    "bad_reply",
    "context_overflow",
    "authentication",
    "permission",
    "unknown_model",
    "too_large",
    "bad_request",
    "unavailable",
]

RETRIED_KINDS: frozenset[ModelErrorKind] = frozenset(
    {"rate_limited", "overloaded", "server", "connection", "timeout", "cut", "bad_reply"}
)
# An answer that cannot be used is paid for all the same, and the next one may be like it.
UNUSABLE_ATTEMPTS = 3
MAX_RETRY_AFTER_S = 300.0
RETRY_AFTER_MARGIN_S = 0.1


class ModelFacts(FrozenModel):
    """What is known of a failed model call.

    `retry_after_s` is the provider's wish in seconds, already parsed from seconds or an HTTP date;
    `usage` is what the attempt consumed before it failed, `confirmed` where the provider told all
    of it (an error status in place of an answer is billed nothing); `sent` tells whether it reached
    the provider at all.
    """

    kind: ModelErrorKind
    message: str
    status: int | None = None
    provider_code: str | None = None
    retry_after_s: float | None = None
    request_id: str | None = None
    usage: Usage = Usage()
    sent: bool = True
    confirmed: bool = True

    @property
    def retryable(self) -> bool:
        """Whether the same call may heal by waiting."""
        return self.kind in RETRIED_KINDS


class ModelError(PerdureError):
    """A model call failed; `facts` say how."""

    code: ClassVar[str] = "model_error"

    def __init__(self, facts: ModelFacts) -> None:
        super().__init__(facts.message)
        self.facts = facts


def tries_after(kind: ModelErrorKind, *, tries: int) -> int:
    """How often a call may be made in all that failed like this, if its provider has `tries`."""
    return min(tries, UNUSABLE_ATTEMPTS) if kind == "bad_reply" else tries


def retry_delay(
    *, attempt: int, retry_after_s: float | None, initial_s: float, maximum_s: float, jitter: float
) -> float:
    """Seconds to wait before attempt `attempt + 1`.

    The provider's wish wins, plus 100 ms, clamped to 300 s; else `initial_s` doubling to
    `maximum_s`, scaled by `jitter` (a seeded figure between 0.8 and 1.2).
    """
    if retry_after_s is not None and retry_after_s > 0:
        return min(retry_after_s + RETRY_AFTER_MARGIN_S, MAX_RETRY_AFTER_S)
    # Bounded, because 2.0 ** 1024 fits no float, and a call may have any number of attempts.
    return min(maximum_s, initial_s * 2.0 ** min(max(0, attempt - 1), 64)) * jitter
