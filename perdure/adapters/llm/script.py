"""The file format of the scripted model; errors name the exact place in the file."""

from decimal import Decimal
from typing import Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, problems_of
from perdure.domain.llm.errors import ModelErrorKind
from perdure.domain.llm.file_signatures import AttachmentKind, MediaType
from perdure.domain.llm.requests import Price, StopReason
from perdure.domain.llm.usage import Usage
from perdure.strict_yaml import parse

LARGE_WINDOW = 1_000_000
LARGE_OUTPUT = 100_000
WORKER = "worker"
MOST_VALUES = 1_000_000  # a script of ten thousand replies is no strange one


class ScriptPrice(FrozenModel):
    """USD per million tokens; cache prices follow from the input price."""

    input_per_million: Decimal = Field(default=Decimal(0), ge=0)
    output_per_million: Decimal = Field(default=Decimal(0), ge=0)

    def price(self) -> Price:
        return Price(
            input_per_million=self.input_per_million, output_per_million=self.output_per_million
        )


class ScriptUsage(FrozenModel):
    """The usage that a reply reports; `cache_write_tokens` is a five-minute write."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_write_tokens: int = Field(default=0, ge=0)
    cache_write_1h_tokens: int = Field(default=0, ge=0)

    def usage(self) -> Usage:
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_5m_tokens=self.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens,
        )


class When(FrozenModel):
    """Which calls an entry answers; a field that is left out matches every call.

    `model` is the label after `#` in `scripted:FILE#label`, or the model's full name. `contains` is
    searched for in the system prompt and all messages, `sees` among their images and PDFs.
    """

    role: str | None = None
    iteration: int | None = Field(default=None, ge=0)
    model: str | None = None
    worker: str | None = None
    contains: str | None = None
    sees: MediaType | None = None


class ScriptToolCall(FrozenModel):
    """A tool call of the model; without an id it gets one that is the same at each retry."""

    name: str
    arguments: dict[str, JsonValue] = {}
    id: str | None = None


class ScriptError(FrozenModel):
    """A failed attempt, given by the provider's status or by our kind of error."""

    status: int | None = Field(default=None, ge=400, le=599)
    kind: ModelErrorKind | Literal["refusal"] | None = None
    code: str | None = None
    retry_after: float | str | None = None
    message: str | None = None

    @model_validator(mode="after")
    def _one_cause(self) -> Self:
        if self.status is None and self.kind is None:
            raise ValueError("a status from 400 to 599, or a kind")
        return self


ErrorWord = Literal[ModelErrorKind, "refusal"]


class Entry(FrozenModel):
    """One reply of the script, used `times` times."""

    when: When = When()
    times: int = Field(default=1, ge=1)
    text: str | None = None
    json_value: JsonValue = Field(default=None, alias="json")
    tool_calls: tuple[ScriptToolCall, ...] = ()
    error: ErrorWord | ScriptError | None = None
    usage: ScriptUsage | None = None
    delay_s: float = Field(default=0.0, ge=0)
    stop_reason: StopReason | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        has_json = "json_value" in self.model_fields_set
        if self.error is not None and (has_json or self.tool_calls):
            raise ValueError("an error alone, or with the text that came before it")
        if has_json and (self.text is not None or self.tool_calls):
            raise ValueError("json alone, without text and tool_calls")
        if self.text is None and not (
            has_json or self.tool_calls or self.error or self.stop_reason
        ):
            raise ValueError("one of text, json, tool_calls, error, stop_reason")
        return self

    @property
    def failure(self) -> ScriptError | None:
        """The error in its long form."""
        if isinstance(self.error, str):
            return ScriptError(kind=self.error)
        return self.error


class Defaults(FrozenModel):
    """What applies to entries that do not state it."""

    usage: ScriptUsage | None = None


class Script(FrozenModel):
    """A whole script, as `docs/scripted-model.md` describes it.

    `attachments` are what the model can be shown besides text; an empty list means nothing.
    """

    price: ScriptPrice = ScriptPrice()
    defaults: Defaults = Defaults()
    window: int = Field(default=LARGE_WINDOW, ge=1)
    max_output: int = Field(default=LARGE_OUTPUT, ge=1)
    attachments: tuple[AttachmentKind, ...] = ("image", "pdf")
    replies: tuple[Entry, ...] = Field(min_length=1)
    exhausted: Literal["error", "repeat_last"] = "error"


def parse_script(text: str, *, source: str = "script") -> Script:
    """Read and validate a script.

    Raises:
        InvalidInput: names every problem, with its path, what was found and what is allowed.
    """
    value = parse(text, named=source, cure="Correct it and submit it again.", most=MOST_VALUES)
    try:
        script = Script.model_validate(value)
    except ValidationError as error:
        raise _invalid(source, problems_of(error, value, names=_FIELD_NAMES)) from None
    if problems := _ambiguities(script):
        raise _invalid(source, problems)
    return script


def _invalid(source: str, problems: tuple[Problem, ...]) -> InvalidInput:
    lines = "".join(f"\n  {problem}" for problem in problems)
    return InvalidInput(
        f"{source} is not a script:{lines}", cure="\nCorrect the file and submit it again."
    )


def _ambiguities(script: Script) -> tuple[Problem, ...]:
    """Replies that parallel workers would take in any order, so that no two runs were alike."""
    if not any(_delegates_to_several(entry) for entry in script.replies):
        return ()
    unlabelled = [
        index for index, entry in enumerate(script.replies) if _is_for_any_worker(entry.when)
    ]
    # If all these replies are equal, it does not matter which worker takes which.
    if len({script.replies[index].model_dump_json() for index in unlabelled}) < 2:
        return ()
    return tuple(
        Problem(
            path=f"replies[{index}].when",
            found="a reply that any of several parallel workers may take",
            allowed="`worker` or `contains` to tell them apart, or another role",
        )
        for index in unlabelled
    )


def _delegates_to_several(entry: Entry) -> bool:
    said = entry.json_value
    work = said.get("delegations") if isinstance(said, dict) else None
    return isinstance(work, list) and len(work) > 1


def _is_for_any_worker(when: When) -> bool:
    return when.role in {None, WORKER} and when.worker is None and when.contains is None


_MODELS = (Script, Defaults, ScriptPrice, ScriptUsage, When, ScriptToolCall, ScriptError, Entry)
_FIELD_NAMES = frozenset(
    field.alias or name for model in _MODELS for name, field in model.model_fields.items()
)
