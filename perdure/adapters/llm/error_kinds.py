"""What a provider's error words mean, and how long it wants us to wait."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from perdure.domain.llm.errors import RETRIED_KINDS, ModelError, ModelErrorKind, ModelFacts

_KIND_OF_TYPE: dict[str, ModelErrorKind] = {
    "api_error": "server",
    "authentication_error": "authentication",
    "billing_error": "permission",
    "conflict_error": "server",
    "exceed_context_size_error": "context_overflow",  # llama.cpp's word
    "invalid_request_error": "bad_request",
    "not_found_error": "unknown_model",
    "overloaded_error": "overloaded",
    "permission_error": "permission",
    "rate_limit_error": "rate_limited",
    "request_too_large": "too_large",
    "timeout_error": "timeout",
    # What OpenAI and those who speak its dialect call it, as a type or as a code.
    "billing_hard_limit_reached": "permission",
    "context_length_exceeded": "context_overflow",
    "insufficient_quota": "permission",
    "invalid_api_key": "authentication",
    "invalid_prompt": "bad_request",
    "model_not_found": "unknown_model",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "slow_down": "overloaded",
    "DeploymentNotFound": "unknown_model",
    # Frames of errors inside a stream of Amazon Bedrock.
    "internalServerException": "server",
    "modelStreamErrorException": "server",
    "modelTimeoutException": "timeout",
    "serviceUnavailableException": "overloaded",
    "throttlingException": "rate_limited",
    "validationException": "bad_request",
}
_KIND_OF_STATUS: dict[int, ModelErrorKind] = {
    401: "authentication",
    402: "permission",
    403: "permission",
    404: "unknown_model",
    408: "timeout",
    409: "server",
    413: "too_large",
    429: "rate_limited",
    529: "overloaded",
}


def kind_of(*, status: int, provider_type: str | None, code: str | None = None) -> ModelErrorKind:
    """The kind of a provider's error.

    A code that is known says more than a type, of which there may be few. Then the body's type
    decides, because an error event inside a stream comes with status 200; the status decides where
    the type is missing, unknown, or merely says that the request was invalid, and where it is final
    while the type is not: a gateway may answer 401 with a type of its own.
    """
    by_type = _KIND_OF_TYPE.get(code or "") or _KIND_OF_TYPE.get(provider_type or "")
    by_status = _KIND_OF_STATUS.get(status)
    if by_type is not None and not _overruled(by_type, by_status):
        return by_type
    if by_status is not None:
        return by_status
    return "bad_request" if 400 <= status < 500 else "server"


def _overruled(by_type: ModelErrorKind, by_status: ModelErrorKind | None) -> bool:
    """Whether the status knows better: what it calls final does not heal by asking again."""
    if by_status is None:
        return False
    return by_type == "bad_request" or (by_type in RETRIED_KINDS and by_status not in RETRIED_KINDS)


def refused(message: str, *, kind: ModelErrorKind = "bad_request") -> ModelError:
    """An error found here, before anything was sent."""
    return ModelError(ModelFacts(kind=kind, message=message, sent=False))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds from now, never negative; None when there is no wish or it makes no sense.

    A date is measured against the response's own `date` header where there is one, so that a wrong
    local clock does not shift it. Clamping is policy and happens in the domain.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    wish = headers.get("retry-after", "").strip()
    seconds = _number(wish)
    if seconds is not None:
        return max(0.0, seconds)
    until = _date(wish)
    if until is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(text: str) -> datetime | None:
    try:
        value = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
