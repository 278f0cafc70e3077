"""Settings of the agent loop, and the two profiles that fill what a task leaves open."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from perdure.domain.budget.accounting import MOST_SECONDS
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import repeated
from perdure.domain.tools.definitions import AccessLevel
from perdure.domain.tools.mcp_servers import ServerSpec

ProfileName = Literal["agent", "delegate"]

NUDGE_PROMPT = "Your last reply was empty. Answer in text now, from what you have learnt so far."
FALLBACK_TEXT = "The model gave no answer. What was done so far is listed in the run's history."
FORCED_TEXT_PROMPT = (
    "Tools are switched off now. Answer in text from what you have learnt so far; "
    "say plainly what is missing."
)
CONTINUE_PROMPT = "Your text was cut off. Go on exactly where it stopped; repeat nothing."
CUT_EMPTY_PROMPT = (
    "Your last reply reached its output limit before it said anything. Answer now, and briefly."
)
CUT_CALL_PROMPT = (
    "Your call of `{name}` was cut off at the output limit. It did not reach the tool; nothing of "
    "it was done. Make it again; what is long, in several smaller calls."
)
LOST_CALL_PROMPT = (
    "Your last reply announced a tool call, but brought none. Make it, or answer in text."
)
FINISH_PROMPT = (
    "Your text is not finished, and this is your last reply. Go on exactly where it stopped, "
    "repeat nothing, and come to an end in few sentences; say plainly what is missing."
)


# Beyond any honest run: whoever gives more means no limit, and should say so by the budget.
MOST_ITERATIONS = 100_000
MOST_TOKENS = 10_000_000_000
LONGEST_CALL_S = 86_400

Turn = Annotated[int, Field(ge=1, le=MOST_ITERATIONS)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST_CALL_S, allow_inf_nan=False)]
Working = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]


class ToolLoopLevels(FrozenModel):
    """Calls of one tool that bring nothing new: when to warn, to ask a person, to end."""

    warning: int = Field(default=10, ge=1, le=MOST_ITERATIONS)
    critical: int = Field(default=20, ge=1, le=MOST_ITERATIONS)
    circuit_breaker: int = Field(default=30, ge=1, le=MOST_ITERATIONS)


class InitialMessage(FrozenModel):
    """One message of a given history."""

    role: Literal["user", "assistant"]
    text: str


class AgentSettings(FrozenModel):
    """The `agent:` block; what is left out, or null, takes the profile's value."""

    profile: ProfileName = "agent"
    system: str = ""
    messages: tuple[InitialMessage, ...] = ()
    transcript: str | None = None
    # 0 is refused: it means no limit in `budget`, and surely not the profile's value.
    max_iterations: int | None = Field(default=None, ge=1, le=MOST_ITERATIONS)
    max_illegal_strikes: int | None = Field(default=None, ge=1, le=MOST_ITERATIONS)
    max_tool_repeat: int | None = Field(default=None, ge=1, le=MOST_ITERATIONS)
    output_token_ceiling: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    defer_mixed_text: bool | None = None
    nudge_on_empty: bool | None = None
    nudge_prompt: str = NUDGE_PROMPT
    fallback_text: str = FALLBACK_TEXT
    parallel_tools: bool = True
    tool_loop: ToolLoopLevels = ToolLoopLevels()
    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    active_time: Working | None = None
    tool_timeout: Seconds | None = None


class ToolFilter(FrozenModel):
    """A pure rule for which tools are on offer in an iteration.

    From iteration `after` on (and up to `until`) only tools whose name starts with one of `only`
    or that carry one of `tags` are offered; `requires` names tools that must have succeeded.
    """

    only: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    after: Turn = 1
    until: Turn | None = None
    requires: tuple[str, ...] = ()

    @field_validator("until")
    @classmethod
    def _not_before(cls, value: int | None, info: ValidationInfo) -> int | None:
        after = info.data.get("after", 1)
        if value is not None and value < after:
            raise ValueError(f"`after` ({after}) or a later iteration; this rule is never in force")
        return value


def _listed(given: object) -> object:
    """One rule may stand alone."""
    match given:
        case None:
            return ()
        case dict() | ToolFilter():
            return (given,)
        case _:
            return given


ToolFilters = Annotated[
    tuple[ToolFilter, ...],
    Field(max_length=32),
    BeforeValidator(_listed, json_schema_input_type=ToolFilter | tuple[ToolFilter, ...] | None),
]

MadeHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ToolsSpec(FrozenModel):
    """The `tools:` block: a level, narrowed by names; names may end in `*`.

    Without `allow` a run has all that its level offers; with an empty list it has none.
    `filter` is one rule or several: on offer is what all those in force let by.
    `generated` adds tools that earlier work made and a person approved, by name and hash.

    Without a level, models that can choose tools get `readonly`, others none.
    """

    access: AccessLevel | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    filter: ToolFilters = ()
    timeouts: dict[str, Seconds] = {}
    repeat_exempt: tuple[str, ...] = ()
    mcp: tuple[ServerSpec, ...] = ()
    generated: dict[str, MadeHash] = {}

    @field_validator("mcp", mode="after")
    @classmethod
    def _named_once(cls, servers: tuple[ServerSpec, ...]) -> tuple[ServerSpec, ...]:
        twice = repeated([server.name for server in servers])
        if twice:
            raise ValueError(f"each server once; named twice: {', '.join(twice)}")
        return servers


class Turns(FrozenModel):
    """Agent settings with every field resolved; the defaults are the profile `agent`."""

    max_iterations: int = 50
    max_illegal_strikes: int = 2
    max_tool_repeat: int = 3
    output_token_ceiling: int | None = None
    defer_mixed_text: bool = True
    nudge_on_empty: bool = True
    nudge_prompt: str = NUDGE_PROMPT
    fallback_text: str = FALLBACK_TEXT
    parallel_tools: bool = True
    tool_loop: ToolLoopLevels = ToolLoopLevels()
    active_time: float | None = None
    tool_timeout: float | None = None


_PROFILES: dict[ProfileName, Turns] = {
    "agent": Turns(),
    "delegate": Turns(
        max_iterations=15,
        output_token_ceiling=25_000,
        defer_mixed_text=False,
        nudge_on_empty=False,
        active_time=90.0,
        tool_timeout=30.0,
    ),
}


def resolve(settings: AgentSettings) -> Turns:
    """Fill what the task leaves open from its profile, field by field."""
    base = _PROFILES[settings.profile]
    return base.model_copy(
        update={
            "max_iterations": settings.max_iterations or base.max_iterations,
            "max_illegal_strikes": settings.max_illegal_strikes or base.max_illegal_strikes,
            "max_tool_repeat": settings.max_tool_repeat or base.max_tool_repeat,
            # `or` is enough for numbers, as 0 is refused; switches may be False, and need `_given`.
            "output_token_ceiling": settings.output_token_ceiling or base.output_token_ceiling,
            "defer_mixed_text": _given(settings.defer_mixed_text, base.defer_mixed_text),
            "nudge_on_empty": _given(settings.nudge_on_empty, base.nudge_on_empty),
            "nudge_prompt": settings.nudge_prompt,
            "fallback_text": settings.fallback_text,
            "parallel_tools": settings.parallel_tools,
            "tool_loop": settings.tool_loop,
            "active_time": settings.active_time or base.active_time,
            "tool_timeout": settings.tool_timeout or base.tool_timeout,
        }
    )


def _given(value: bool | None, fallback: bool) -> bool:
    return fallback if value is None else value
