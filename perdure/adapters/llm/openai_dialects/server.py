"""A server that speaks a dialect of OpenAI: where it is, what it lacks, how its client fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import openai

from perdure.adapters.llm.call_failures import Client, ProviderError

Feature = Literal["json_schema", "streaming"]
FEATURES: tuple[Feature, ...] = ("json_schema", "streaming")
INSTEAD: Mapping[Feature, str] = {
    "json_schema": "takes no JSON schema: the schema is told in the prompt instead",
    "streaming": "does not stream: its answers come as a whole",
}
# A provider's own judgement on a prompt: an answer that refuses, not a fault of the call.
REFUSALS = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "misalignment_policy_violation",
    }
)
NOT_TAKEN = frozenset({400, 404, 405, 415, 422, 501})


def _told(error: Exception) -> ProviderError | None:
    match error:
        case openai.APIStatusError():
            return ProviderError(
                status=error.status_code,
                message=_message(error),
                type=_word(error.type),
                code=_word(error.code),
                request_id=error.request_id,
                headers=error.response.headers,
            )
        case openai.APIConnectionError() | openai.APIResponseValidationError():
            return None
        case openai.APIError():
            # An error in the middle of a stream.
            kind, code = _word(error.type), _word(error.code)
            return ProviderError(status=200, message=error.message, type=kind or code, code=code)
        case _:
            return None


def _word(given: object) -> str | None:
    # Compatible servers put numbers and nulls there, which say no more than the status does.
    return str(given) if given and not str(given).isdigit() else None


def _message(error: openai.APIStatusError) -> str:
    """What the server itself said, without what the client puts around it."""
    body: object = error.body
    if isinstance(body, Mapping):
        said = cast("Mapping[str, object]", body).get("message")
        if isinstance(said, str):
            return said
    return error.message


SDK = Client(
    told=_told,
    timeouts=openai.APITimeoutError,
    connections=openai.APIConnectionError,
    failures=openai.OpenAIError,
    request_id="x-request-id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server that speaks a dialect of OpenAI.

    Attributes:
        title: what people call it, for messages.
        prefix: what its models' names begin with here, to be left out on the wire.
        model: the name on the wire, where the whole name here means one model.
        base_url: where it answers.
        api_key: None makes every call fail as `authentication` before anything is sent.
        no_key: what to do about that.
        dialect: which of the two it speaks.
        lacks: the features that it is said to lack.
        has: those that it is said to have, and is never asked without.
    """

    title: str
    prefix: str
    base_url: str
    api_key: str | None
    no_key: str
    dialect: Literal["responses", "chat"]
    model: str | None = None
    lacks: frozenset[Feature] = frozenset()
    has: frozenset[Feature] = frozenset()

    def wire_name(self, model: str) -> str:
        """The model's name at the server."""
        return self.model or model.removeprefix(self.prefix)
