"""Why an answer ended, in the words of real servers, and what each of them means here.

Servers that speak chat completions have their own words, or those of the model's maker: those of
Cohere, Gemini, Mistral and Together, of llama.cpp, vLLM and text-generation-inference, and of
gateways before Claude.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from perdure.domain.llm.errors import ModelErrorKind
from perdure.domain.llm.requests import StopReason

_WORDS: Mapping[StopReason, Iterable[str]] = {
    "end_turn": (
        "stop", "stopped", "eos", "eos_token", "eot", "end_of_text", "end_of_turn", "end_turn",
        "end", "complete", "completed", "done", "finish", "finished",
    ),
    "stop_sequence": ("stop_sequence", "stop_string", "stop_word"),
    "tool_use": ("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"),
    "max_tokens": (
        "length", "limit", "max_length", "max_tokens", "max_new_tokens", "max_output_tokens",
        "max_completion_tokens", "token_limit",
    ),
    "context_end": (
        "model_length", "context_length", "context_length_exceeded", "error_limit",
        "model_context_window_exceeded",
    ),
    "refusal": (
        "content_filter", "content_filtered", "refusal", "safety", "image_safety", "recitation",
        "blocklist", "prohibited_content", "spii", "error_toxic", "guardrail_intervened",
    ),
    "pause_turn": ("pause_turn",),
}  # fmt: skip
STOPS: Mapping[str, StopReason] = MappingProxyType(
    {word: reason for reason, words in _WORDS.items() for word in words}
)
# The provider says itself that there is no whole answer. Nobody may take half of one for it.
FAILURES: Mapping[str, ModelErrorKind] = MappingProxyType(
    {
        "abort": "server",
        "aborted": "server",
        "cancelled": "server",
        "error": "server",
        "failed": "server",
        "insufficient_system_resource": "overloaded",
        "malformed_function_call": "bad_reply",
        "timeout": "timeout",
        "user_cancel": "server",
    }
)


def stop_of(word: str | None) -> StopReason | None:
    """A server's finish reason as ours, in whatever case; None for an unknown one."""
    return STOPS.get(_plain(word))


def failure_of(word: str | None) -> ModelErrorKind | None:
    """The kind of the failure that a finish reason tells of; None if it tells of none."""
    return FAILURES.get(_plain(word))


def _plain(word: str | None) -> str:
    return (word or "").strip().lower().replace("-", "_")
