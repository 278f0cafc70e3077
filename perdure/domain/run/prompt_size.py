"""How many tokens the entries of a request will add, from the sizes that references carry."""

from collections.abc import Sequence
from typing import assert_never

from perdure.domain.foundation.tokens import MESSAGE_OVERHEAD_TOKENS, estimate
from perdure.domain.tools.definitions import EXCERPT_CHARACTERS
from perdure.domain.turns.entries import (
    Entry,
    GoalEntry,
    JudgeEntry,
    PlanEntry,
    RefineEntry,
    ResultsEntry,
    SayEntry,
    StageEntry,
    ToolResultEntry,
)

# Of a longer result the prompt shows an excerpt alone. Code has little more than two characters a
# token.
EXCERPT_TOKENS = EXCERPT_CHARACTERS // 2


def entries_tokens(entries: Sequence[Entry]) -> int:
    """Estimated tokens of what can be counted without reading content."""
    return sum(_entry_tokens(entry) for entry in entries)


def entries_media(entries: Sequence[Entry], *, task_media: int) -> int:
    """The most that images and PDFs among the entries take.

    Args:
        entries: what is appended.
        task_media: what those of the task take, wherever an entry tells the task anew.
    """
    total = 0
    for entry in entries:
        match entry:
            case ResultsEntry():
                shown = [one for result in entry.results for one in result.attachments]
                total += sum(one.tokens.media for one in shown)
            case RefineEntry() | PlanEntry() | JudgeEntry() | StageEntry() | GoalEntry():
                total += task_media
            case SayEntry():
                pass
            case _:
                assert_never(entry)
    return total


def _entry_tokens(entry: Entry) -> int:
    match entry:
        case SayEntry():
            return estimate(entry.text).total + entry.tokens + MESSAGE_OVERHEAD_TOKENS
        case ResultsEntry():
            return sum(_result_tokens(result) for result in entry.results)
        case RefineEntry() | StageEntry() | GoalEntry():
            return entry.tokens + MESSAGE_OVERHEAD_TOKENS
        # What these show is counted by whoever asks, as the `extra_tokens` of the call.
        case PlanEntry() | JudgeEntry():
            return MESSAGE_OVERHEAD_TOKENS
        case _:
            assert_never(entry)


def _result_tokens(result: ToolResultEntry) -> int:
    size = 0 if result.ref is None else min(result.ref.tokens.total, EXCERPT_TOKENS)
    return size + estimate(result.note).total + MESSAGE_OVERHEAD_TOKENS
