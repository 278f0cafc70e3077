"""What an iteration record says: its model call, its short form, what the iteration still lacks.

A record is written by the step after it. There it leaves out what that step's request says anyway:
the model, where it is the same, the transcript that it goes on from, the frame that names the tools
on offer, and the calls whose results it brings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue

from perdure.domain.budget.accounting import Spend
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.llm.usage import AttemptTotals, Usage, add_cost
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.turns.entries import Entry, ResultsEntry
from perdure.domain.turns.records import IterationRecord

SAME = "="


def spent_since(before: Spend, now: Spend) -> AttemptTotals:
    """What was charged between two looks, failed attempts and other models included."""
    return AttemptTotals(
        attempts=now.model_calls - before.model_calls,
        usage=_less(now.usage + now.unconfirmed, before.usage + before.unconfirmed),
        cost_usd=None if now.unpriced else now.cost_usd - before.cost_usd,
        seconds=round(now.active_time - before.active_time, 3),
    )


def with_account(record: IterationRecord, account: AttemptTotals) -> IterationRecord:
    """The record with what more was used."""
    return record.model_copy(
        update={
            "usage": record.usage + account.total_usage,
            "cost_usd": add_cost(record.cost_usd, account.total_cost_usd),
            "model_calls": record.model_calls + account.attempts,
            "duration_s": round(record.duration_s + account.seconds, 3),
        }
    )


def with_reply(
    record: IterationRecord, called: ModelCallReport, *, tools_offered: int, frame: str | None
) -> IterationRecord:
    """The record with the facts of the reply; the `frame` of the call names all its tools."""
    all_tools = frame if tools_offered else None
    return record.model_copy(
        update={
            "model": called.model,
            "request_id": called.request_id,
            "stop_reason": called.stop_reason,
            "tools_offered": tools_offered,
            "tools_ref": called.tools_ref or all_tools,
            "transcript": called.head.hash if called.head else None,
            "has_tool_calls": bool(called.calls),
            "output_ref": called.text.hash if called.text else None,
        }
    )


@dataclass(frozen=True, slots=True)
class Carrier:
    """What a request itself says about the records that travel in it.

    `results` are the ids and names of the tool calls whose results it brings.
    """

    model: str
    head: TranscriptRef | None
    frame: str
    results: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, *, model: str, head: TranscriptRef | None, frame: str, append: Sequence[Entry]
    ) -> Self:
        """What a request to `model` says that goes on from `head` with these entries."""
        given = (
            one for entry in append if isinstance(entry, ResultsEntry) for one in entry.results
        )
        return cls(model, head, frame, tuple((one.call_id, one.name) for one in given))


def thin(record: IterationRecord, carrier: Carrier) -> IterationRecord:
    """The record as it travels: without what its carrier says."""
    same: dict[str, object] = {}
    if record.model == carrier.model:
        same["model"] = SAME
    if carrier.head is not None and record.transcript == carrier.head.hash:
        same["transcript"] = SAME
    if record.tools_ref == carrier.frame and record.tools_offered:
        same["tools_ref"] = None
    named = tuple((call.id, call.name) for call in record.calls)
    if named and record.has_tool_calls and named == carrier.results:
        short = {"id": SAME, "name": SAME}
        same["calls"] = tuple(call.model_copy(update=short) for call in record.calls)
        # The default does not travel, and `whole` sees by the ids that there were calls.
        same["has_tool_calls"] = False
    return record.model_copy(update=same)


def whole(record: IterationRecord, carrier: Carrier) -> IterationRecord:
    """Restore the full record: the reverse of `thin`."""
    known: dict[str, object] = {}
    if record.model == SAME:
        known["model"] = carrier.model
    if record.transcript == SAME and carrier.head is not None:
        known["transcript"] = carrier.head.hash
    if record.tools_offered and record.tools_ref is None:
        known["tools_ref"] = carrier.frame
    if record.calls and all(call.id == SAME for call in record.calls):
        known["has_tool_calls"] = True
        known["calls"] = tuple(
            call.model_copy(update={"id": id, "name": name})
            # Strict: without a result for each, the record would give calls the names of others.
            for call, (id, name) in zip(record.calls, carrier.results, strict=True)
        )
    return record.model_copy(update=known)


def _less(left: Usage, right: Usage) -> Usage:
    return Usage(
        **{name: getattr(left, name) - getattr(right, name) for name in Usage.model_fields}
    )


SHOWN = 2
CHARACTERS = 60
MATTERING = frozenset({"blocker", "important"})


def lacking(record: IterationRecord) -> list[JsonValue]:
    """What is below full: titles of a judge's findings that matter, else names of dimensions.

    As data of an event: at most `SHOWN` texts, and how many are left out.
    """
    told = list(dict.fromkeys(_told(record)))
    rest = len(told) - SHOWN
    lines: list[JsonValue] = [clipped_line(text, CHARACTERS) for text in told[:SHOWN]]
    return [*lines, f"{rest} more"] if rest > 0 else lines


def counted(record: IterationRecord) -> list[JsonValue]:
    """What test programs counted, each once."""
    return list(dict.fromkeys(item.counted for item in record.dimensions.values() if item.counted))


def _told(record: IterationRecord) -> Iterator[str]:
    for name, item in record.dimensions.items():
        if item.score >= 1:
            continue
        # A check's finding quotes patterns and schemas; the dimension's name says more to people.
        titles = [] if item.source == "check" else list(_titles(record, name))
        yield from titles or [name]


def _titles(record: IterationRecord, dimension: str) -> Iterator[str]:
    for finding in record.findings:
        matters = finding.get("severity") in MATTERING
        if matters and finding.get("dimension") == dimension:
            yield str(finding.get("title"))
