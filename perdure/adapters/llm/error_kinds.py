"""Classifies a provider's errors, and reads how long it asks to wait."""

from perdure.domain.llm.errors import RETRIED_KINDS, ModelError, ModelErrorKind, ModelFacts

_KIND_OF_TYPE: dict[str, ModelErrorKind] = {
    "api_error": "server",
    "authentication_error": "authentication",
    "billing_error": "permission",
    "conflict_error": "server",
    "exceed_context_size_error": "context_overflow",  # of llama.cpp
    "invalid_request_error": "bad_request",
    "not_found_error": "unknown_model",
    "overloaded_error": "overloaded",
    "permission_error": "permission",
    "rate_limit_error": "rate_limited",
    "request_too_large": "too_large",
    "timeout_error": "timeout",
    # Types and codes of OpenAI and of servers that speak its dialect.
    "billing_hard_limit_reached": "permission",
    "context_length_exceeded": "context_overflow",
    # Comes with status 429, but no wait refills an account.
    "insufficient_quota": "permission",
    "invalid_api_key": "authentication",
    "invalid_prompt": "bad_request",
    "model_not_found": "unknown_model",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "slow_down": "overloaded",
    "DeploymentNotFound": "unknown_model",
    # Error frames inside a stream of Amazon Bedrock.
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

    A known code decides first, since types are coarser. Then the type in the body decides, because
    an error event inside a stream has status 200. The status decides if the type is missing or
    unknown, if it only says that the request was invalid, or if the status is final and the type is
    not: a gateway may answer 401 with a type of its own.
    """
    by_type = _KIND_OF_TYPE.get(code or "") or _KIND_OF_TYPE.get(provider_type or "")
    by_status = _KIND_OF_STATUS.get(status)
    if by_type is not None and not _overruled(by_type, by_status):
        return by_type
    if by_status is not None:
        return by_status
    return "bad_request" if 400 <= status < 500 else "server"


def _overruled(by_type: ModelErrorKind, by_status: ModelErrorKind | None) -> bool:
    """Whether the status decides against the type: retrying does not help against a final one."""
    if by_status is None:
        return False
    return by_type == "bad_request" or (by_type in RETRIED_KINDS and by_status not in RETRIED_KINDS)


def unsent_error(message: str, *, kind: ModelErrorKind = "bad_request") -> ModelError:
    """The error of a request that we refuse before anything is sent."""
    return ModelError(ModelFacts(kind=kind, message=message, sent=False))
