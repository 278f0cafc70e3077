"""A server that speaks a dialect of OpenAI: its address, its gaps, and its client's errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import openai

from perdure.adapters.llm.call_failures import ClientErrors, ProviderError

Feature = Literal["json_schema", "streaming"]
FEATURES: tuple[Feature, ...] = ("json_schema", "streaming")
INSTEAD: Mapping[Feature, str] = {
    "json_schema": "takes no JSON schema: the schema is told in the prompt instead",
    "streaming": "does not stream: its answers come as a whole",
}
NOT_STREAMED = (
    "If it cannot stream, say `streaming: false` in its entry of PERDURE_PROVIDERS, and start the "
    "workers again"
)
# The provider's safety filter refused the prompt: that is an answer, not an error of the call.
REFUSALS = frozenset(
    {"bio_policy", "content_filter", "content_policy_violation", "misalignment_policy_violation"}
)
# The statuses with which servers answer a request that has a feature they do not know.
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
            status = status_in(error.code) or 200
            return ProviderError(status=status, message=error.message, type=kind or code, code=code)
        case _:
            return None


def _word(given: object) -> str | None:
    # Compatible servers put numbers and nulls there, which repeat the status.
    return str(given) if given and not str(given).isdigit() else None


def status_in(code: object) -> int | None:
    """The status that an error inside an answer repeats as its code: servers pass on their own."""
    digits = str(code)
    return int(digits) if digits.isdecimal() and 400 <= int(digits) < 600 else None


def _message(error: openai.APIStatusError) -> str:
    """The server's own message, without the prefix that the client adds."""
    body: object = error.body
    if isinstance(body, Mapping):
        said = cast("Mapping[str, object]", body).get("message")
        if isinstance(said, str):
            return said
    return error.message


SDK = ClientErrors(
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
        title: its name in messages.
        prefix: the prefix of its models' names here, which is not sent.
        model: the name to send, if the server's name alone means one model.
        base_url: where it answers.
        api_key: None makes every call fail as `authentication` before anything is sent.
        no_key: the message of that failure.
        key: where the key is set, for the error of a refused one.
        dialect: which of the two it speaks.
        lacks: features that the settings say it does not have.
        has: features that the settings say it has, which are never left out.
    """

    title: str
    prefix: str
    base_url: str
    api_key: str | None
    no_key: str
    dialect: Literal["responses", "chat"]
    model: str | None = None
    key: str = ""
    lacks: frozenset[Feature] = frozenset()
    has: frozenset[Feature] = frozenset()

    def wire_name(self, model: str) -> str:
        return self.model or model.removeprefix(self.prefix)
