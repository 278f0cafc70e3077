"""A model call and its reply, independent of any provider; prices of models."""

import math
from decimal import Decimal
from typing import Literal

from pydantic import Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.file_signatures import AttachmentKind
from perdure.domain.llm.transcript import Message
from perdure.domain.llm.usage import Usage

# `first`: what stays the same in later prompts; `fixed`: system and tools, to be read;
# `read`: the conversation as the last call left it; `grow`: that, and what has come since.
CacheUse = Literal["none", "first", "fixed", "read", "grow"]
# How long the provider keeps what was marked, after it was last read.
CacheLife = Literal["5m", "1h"]


def cache_use(
    *, converses: bool, tools_off: bool, rounds: int, agent: bool, followed: bool | None
) -> CacheUse:
    """How a call uses the provider's cache.

    Args:
        converses: tools go along, in a prompt of the usual form.
        tools_off: but may not be called; that also makes the provider forget the messages.
        rounds: replies with tool calls so far.
        agent: the conversation is an agent's, which is there to use its tools.
        followed: whether other calls are sure to begin with the same, earlier ones among them;
            False: none follows; None: nobody knows.
    """
    # A write costs a quarter more than plain input, so marks go only where a later call is certain
    # or likely. Nobody knows before the reply whether a loop goes on: no rule saves every time.
    if not converses:
        return "first" if followed else "none"
    written = rounds >= (1 if agent else 2)
    if tools_off:
        return "fixed" if written else "none"
    if followed is False:
        return "read" if written else "none"
    if agent or rounds:
        return "grow"
    return "first" if followed else "none"


PER_MILLION = Decimal(1_000_000)
# Stop reasons of a reply that its limit, or the end of the window, cut short.
CUT_SHORT = frozenset({"max_tokens", "context_end"})
# And with those that a provider means to go on with: none of them ends an answer.
UNFINISHED = CUT_SHORT | {"pause_turn"}
CACHE_READ_FACTOR = Decimal("0.1")
CACHE_WRITE_5M_FACTOR = Decimal("1.25")
CACHE_WRITE_1H_FACTOR = Decimal(2)

Effort = Literal["low", "medium", "high", "xhigh", "max"]
# Ways to think: not at all, as much as the model finds right, or up to so many tokens.
ThinkingWay = Literal["off", "adaptive", "tokens"]

StopReason = Literal[
    "end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal", "context_end"
]


class ToolOffer(FrozenModel):
    """A tool as a model is shown it."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class PromptRef(FrozenModel):
    """Where the prompt of a call is kept: its conversation by the head, the rest in the frame.

    `system` is the system prompt where it is another than the frame's.
    """

    head: str
    frame: str
    system: str | None = None


class CallContext(FrozenModel):
    """For whom a call is made: ledgers, scripted matching and tracing need it.

    `key` names it in the journal; `call` is the same for all reservations of one logical call
    (empty: its key). `prompt` is kept with the reply, for people.
    """

    run: str
    role: str
    iteration: int
    key: str
    call: str = ""
    attempt: int = 1
    worker: str | None = None
    prompt: PromptRef | None = None


class ModelRequest(FrozenModel):
    """One call as the provider adapter gets it.

    `tool_choice`: `auto`, `none`, `any`, or the name of one tool. `json_schema` asks for
    structured output of that schema. `temperature` is sent only to models that take it. `thinking`
    is `off`, `adaptive`, or the most tokens of it; None leaves it to the model, as with `effort`.
    `cache` says what is marked for the provider's prompt cache, `cache_life` for how long. `files`
    holds the content of every image and PDF in the messages, by address.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    max_tokens: int
    context: CallContext
    tools: tuple[ToolOffer, ...] = ()
    tool_choice: str = "auto"
    json_schema: dict[str, JsonValue] | None = None
    temperature: float | None = None
    seed: int | None = None
    thinking: Literal["off", "adaptive"] | int | None = None
    effort: Effort | None = None
    cache: CacheUse = "none"
    cache_life: CacheLife = "5m"
    # Left out of dumps and logs: no record may hold the content.
    files: dict[str, bytes] = Field(default={}, exclude=True, repr=False)


class ModelReply(FrozenModel):
    """What a model said; `message` holds text, thinking and tool-use blocks in their order.

    `confirmed`: the usage is the provider's own word; one that does not tell it is estimated.
    `cut_call` names the tool whose call was cut short: it is not among the blocks, for half an
    argument must never be acted on. `notes` say in sentences what the call could not do as asked.
    `prompt` is what it answers, as far as it is kept.
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str
    request_id: str | None = None
    confirmed: bool = True
    cut_call: str = ""
    notes: tuple[str, ...] = ()
    prompt: PromptRef | None = None


class Price(FrozenModel):
    """USD per million tokens; missing cache prices follow from the input price.

    `cache_life` is the longest that a run asks for: what a prompt may cost at most depends on it.
    """

    input_per_million: Decimal
    output_per_million: Decimal
    cache_read_per_million: Decimal | None = None
    cache_write_5m_per_million: Decimal | None = None
    cache_write_1h_per_million: Decimal | None = None
    cache_life: CacheLife = "5m"

    def cost(self, usage: Usage) -> Decimal:
        """The price of `usage` in USD."""
        plain = self.input_per_million
        read = _or(self.cache_read_per_million, plain * CACHE_READ_FACTOR)
        write_5m = _or(self.cache_write_5m_per_million, plain * CACHE_WRITE_5M_FACTOR)
        write_1h = _or(self.cache_write_1h_per_million, plain * CACHE_WRITE_1H_FACTOR)
        total = (
            usage.input_tokens * plain
            + usage.output_tokens * self.output_per_million
            + usage.cache_read_tokens * read
            + usage.cache_write_5m_tokens * write_5m
            + usage.cache_write_1h_tokens * write_1h
        )
        return total / PER_MILLION


class ModelProfile(FrozenModel):
    """What is known of a model before the first call; snapshotted at the start of a run.

    `price` None means that the price book does not know it. `window` is its context in tokens.
    `tools` says whether it can choose tools by itself, `judges` whether it may evaluate. `thinking`
    and `effort` are what it can be told of them, `sampling` whether it takes a temperature; None
    where nobody here knows: then it is sent, and the provider says. So with `cache`: how long it
    can be told to keep the beginning of prompts. `attachments` are what it can be shown beside
    text; its provider charges at most `attachment_factor` times the usual bound for them.
    """

    name: str
    price: Price | None
    window: int = 200_000
    max_output: int = 8_192
    tools: bool = True
    judges: bool = True
    small: bool = False
    thinking: tuple[ThinkingWay, ...] | None = None
    effort: tuple[Effort, ...] | None = None
    sampling: bool | None = None
    cache: tuple[CacheLife, ...] | None = None
    attachments: tuple[AttachmentKind, ...] = ()
    attachment_factor: float = 1.0

    def attachment_tokens(self, media: int) -> int:
        """The most that images and PDFs take of this model's prompt, by their usual bound."""
        return math.ceil(media * self.attachment_factor)

    def cached_for(self, life: CacheLife) -> "ModelProfile":
        """The card for a run that asks for such a cache: what a prompt may cost covers it."""
        if self.price is None or self.price.cache_life == life:
            return self
        price = self.price.model_copy(update={"cache_life": life})
        return self.model_copy(update={"price": price})


def _or(value: Decimal | None, fallback: Decimal) -> Decimal:
    # Not `or`: a price of zero is a price.
    return fallback if value is None else value
