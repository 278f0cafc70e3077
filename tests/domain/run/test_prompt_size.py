"""How many tokens entries will add, counted from the sizes that references carry."""

import pytest

from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenSizes
from perdure.domain.run.prompt_size import EXCERPT_TOKENS, entries_tokens
from perdure.domain.turns.entries import ResultsEntry, SayEntry, ToolResultEntry


def result(tokens: int, note: str = "") -> ToolResultEntry:
    ref = BlobRef(hash="sha256:x", bytes=1, tokens=TokenSizes(prose=tokens))
    return ToolResultEntry(call_id="c", name="t", ref=ref, note=note)


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        (SayEntry(type="say", text="word " * 9), 10),
        (SayEntry(type="say", ref="sha256:x", tokens=500), 500),
        (ResultsEntry(type="results", results=(result(70),)), 70),
        (ResultsEntry(type="results", results=(result(70, "word " * 9),)), 80),
        (ResultsEntry(type="results", results=(result(10**6),)), EXCERPT_TOKENS),
        (
            ResultsEntry(
                type="results", results=(ToolResultEntry(call_id="c", name="t", note="word " * 9),)
            ),
            10,
        ),
    ],
    ids=["text", "by reference", "result", "with a note", "an excerpt at most", "note alone"],
)
def test_sizes(entry, tokens):
    assert entries_tokens([entry]) == tokens + MESSAGE_OVERHEAD_TOKENS
    assert entries_tokens([entry, entry]) == 2 * (tokens + MESSAGE_OVERHEAD_TOKENS)
