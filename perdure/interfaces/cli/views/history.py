"""The iterations of a run: scores, changes, findings, a comparison, and the transcript."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import assert_never

from pydantic import JsonValue
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.foundation.plain_text import lines_of
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.domain.llm.usage import add_cost
from perdure.domain.run.hooks import adaptation_lines
from perdure.domain.run.iteration_record import counted, lacking
from perdure.domain.turns.records import IterationRecord, StageRecord, VerdictRecord
from perdure.interfaces.cli.views.events import iteration_line
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, stack, table
from perdure.interfaces.formatting import (
    cure_of,
    duration,
    money,
    one_line,
    place_of,
    plural,
    score,
    tokens,
)

_ROLE_STYLES = {"user": "bold cyan", "assistant": "bold green"}


def transcript_view(messages: Sequence[Message]) -> RenderableType:
    """All messages in order, numbered from 1."""
    if not messages:
        return line("Nothing was said yet.")
    return stack(*(_message(number, message) for number, message in enumerate(messages, start=1)))


def _message(number: int, message: Message) -> RenderableType:
    pinned = "  pinned" if message.pinned else ""
    head = line((f"{number} {message.role}", _ROLE_STYLES[message.role]), (pinned, DIM))
    return stack(head, *(_block(block) for block in message.blocks), Text())


def _block(block: Block) -> RenderableType:
    match block:
        case TextBlock():
            return Text(block.text)
        case ThinkingBlock():
            return line(("(thinking, kept for the model)", DIM))
        case ToolUseBlock():
            arguments = one_line(json.dumps(block.arguments, ensure_ascii=False), 400)
            return line(("→ ", WARN), f"{block.name} {arguments}", (f"  {block.id}", DIM))
        case ToolResultBlock():
            whole = f"  whole: {block.ref.hash}" if block.ref else ""
            head = line((f"← {block.name} {block.outcome}", WARN), (whole, DIM))
            shown = (_shown(one) for one in block.attachments)
            return stack(head, Text(block.text), *shown)
        case AttachmentBlock():
            return _shown(block.file)
        case _:
            assert_never(block)


def _shown(one: Attachment) -> RenderableType:
    return line((one.words, WARN), (f"  {one.ref}", DIM))


_Cell = Callable[[IterationRecord], str]
_SEVERITY_STYLES = {"blocker": BAD, "important": WARN}


def history_view(records: Sequence[IterationRecord], best: int | None) -> RenderableType:
    """One row per iteration, then what was found in each."""
    if not records:
        return line("No iteration is complete yet.")
    columns = _columns(records)
    rows = [_row(record, best, columns) for record in records]
    found = (_findings(record) for record in records)
    if any(record.stages for record in records):
        found = (_told_by_stages(record) for record in records)
    return stack(
        table(tuple(columns), rows, right=("#", "score", "tokens", "cost", "time")),
        _sum(records),
        *found,
    )


def comparison_view(
    first: IterationRecord, second: IterationRecord, *, texts: tuple[str, str]
) -> RenderableType:
    """Two iterations: their scores by dimension, and the differing lines."""
    names = list(dict.fromkeys((*first.dimensions, *second.dimensions)))
    rows = [("overall", *_compared(first.score, second.score))]
    rows += [
        (name, *_compared(_dimension(first, name), _dimension(second, name))) for name in names
    ]
    columns = ("dimension", f"iteration {first.index}", f"iteration {second.index}", "change")
    return stack(
        table(columns, rows, right=columns[1:]),
        Text(),
        *diff_lines(*texts, names=(f"iteration {first.index}", f"iteration {second.index}")),
    )


def diff_lines(before: str, after: str, *, names: tuple[str, str]) -> list[Text]:
    """A unified diff of two texts, coloured."""
    rows = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    lines = coloured_diff("\n".join(rows))
    if not lines and before != after:
        return [line("The texts differ in their line ends alone.")]
    return lines or [line("The texts are the same.")]


def coloured_diff(patch: str) -> list[Text]:
    """The lines of a unified diff: additions green, removals red."""
    # By line ends alone: what follows U+2028 is no line of its own, and must not look like one.
    rows = lines_of(patch.removesuffix("\n")) if patch else []
    return [line((row, _diff_style(row))) for row in rows]


def _columns(records: Sequence[IterationRecord]) -> Mapping[str, _Cell]:
    """The columns for these records; a column that would be empty in every row is left out."""
    told: dict[str, _Cell] = {"#": lambda record: str(record.index), "score": _score}
    told["decision"] = lambda record: record.decision.replace("_", " ")
    told["evaluation"] = _evaluation
    told |= {"dimensions": _dimensions, "stages": _stages, "did": _did, "tools": _tools}
    told["next"] = lambda record: one_line(", ".join(adaptation_lines(record.adapted or {})), 60)
    told["error"] = lambda record: one_line(record.error or "", 80)
    told["tokens"] = lambda record: tokens(record.usage.counted_tokens())
    told["cost"] = lambda record: money(record.cost_usd)
    told["time"] = lambda record: duration(record.duration_s)
    empty = {"score": "–", "evaluation": "none"}
    return {
        name: cell
        for name, cell in told.items()
        if any(cell(record) != empty.get(name, "") for record in records)
    }


def _evaluation(record: IterationRecord) -> str:
    how = record.evaluation.replace("_", " ")
    return f"{how} (unexplained)" if record.unexplained else how


def _row(
    record: IterationRecord, best: int | None, columns: Mapping[str, _Cell]
) -> tuple[str | Text, ...]:
    is_best = record.index == best
    cells: list[str | Text] = []
    for name, cell in columns.items():
        text = cell(record)
        match name:
            case "#":
                cells.append(f"{text}{'★' if is_best else ' '}")
            case "score":
                cells.append(line((text, GOOD if is_best else "")))
            case _:
                cells.append(text)
    return tuple(cells)


def _score(record: IterationRecord) -> str:
    return score(record.score)


def _stages(record: IterationRecord) -> str:
    """The names of the stages, with the status of those that did not complete."""
    return ", ".join(
        one_line(stage.name, 30)
        + ("" if stage.status == "completed" else f" ({stage.status.replace('_', ' ')})")
        for stage in record.stages
    )


def _did(record: IterationRecord) -> str:
    """What a manager decided; empty if the iteration has dimensions, stages or an error."""
    if record.dimensions or record.stages or record.error:
        return ""
    return one_line((record.adaptation or "").partition(":")[0], 40)


def _tools(record: IterationRecord) -> str:
    return one_line(", ".join(call.name for call in record.calls), 80)


def _dimensions(record: IterationRecord) -> str:
    if not record.dimensions:
        return ""
    low = [
        f"{one_line(name, 30)} {score(item.score)}{' (carried)' if item.carried else ''}"
        for name, item in record.dimensions.items()
        if item.score < 1
    ]
    passed = len(record.dimensions) - len(low)
    return ", ".join([f"{passed} of {len(record.dimensions)} full", *low[:4]]) + (
        f" and {len(low) - 4} more" if len(low) > 4 else ""
    )


def record_line(record: IterationRecord) -> Text:
    """The line of an iteration, as in `watch`."""
    told: dict[str, JsonValue] = {"missing": lacking(record), "counted": counted(record)}
    return iteration_line(record.index, {**record.model_dump(mode="json"), **told})


def _told_by_stages(record: IterationRecord) -> RenderableType:
    """The status of each stage, the verdicts and the findings."""
    rows = [_stage_row(stage) for stage in record.stages]
    rows += [_verdict_row(verdict) for verdict in record.verdicts]
    return stack(record_line(record), *rows, *_finding_rows(record))


def _stage_row(stage: StageRecord) -> Text:
    style = DIM if stage.status == "completed" else WARN
    again = f" (attempt {stage.attempt})" if stage.attempt > 1 else ""
    told = one_line(stage.error or stage.line, 100)
    if told.startswith("{"):
        told = ""  # a JSON reply: the verdict read from it is shown in words
    figures = f"  {tokens(stage.tokens)} tokens, {money(stage.cost_usd)}"
    below = f"  {stage.child}" if stage.child else ""
    return line(
        (f"{stage.name:<12} ", style),
        f"{stage.status}{again}: {told}" if told else f"{stage.status}{again}",
        (f"{figures}{below}", DIM),
        indent=2,
    )


def _verdict_row(verdict: VerdictRecord) -> Text:
    style = GOOD if verdict.kind in {"approved", "achieved"} else WARN
    word = verdict.kind.replace("_", " ")
    again = ", asked twice" if verdict.asked_again else ""
    why = f": {one_line(verdict.rationale, 120)}" if verdict.rationale else ""
    return line((f"{'verdict':<12} ", DIM), (word, style), f" ({verdict.by}{again}){why}", indent=2)


def _findings(record: IterationRecord) -> RenderableType | None:
    """The line of an iteration with its decision, and its findings.

    None if nothing was evaluated and nothing else is known.
    """
    if record.score is None and not record.findings and not record.adaptation:
        return None
    return stack(record_line(record), *_finding_rows(record))


def _finding_rows(record: IterationRecord) -> list[Text]:
    rows: list[Text] = []
    for finding in record.findings:
        words = {name: str(value) for name, value in finding.items() if value is not None}
        severity = words.get("severity", "")
        about = words.get("dimension", "")
        told = f"{one_line(about)}: " if about else ""
        told += one_line(words.get("title", ""))
        told += place_of(words)
        scored = record.dimensions.get(about)
        fix = cure_of(words, checked=scored is not None and scored.source == "check")
        style = _SEVERITY_STYLES.get(severity, DIM)
        rows.append(line((f"{severity:<10} ", style), told, (fix, DIM), indent=2))
    return rows


def _sum(records: Sequence[IterationRecord]) -> Text:
    cost: Decimal | None = Decimal(0)
    for record in records:
        # One cost that nobody knows makes the sum unknown, and not smaller.
        cost = add_cost(cost, record.cost_usd)
    total = sum(record.usage.counted_tokens() for record in records)
    return line((f"{plural(len(records), 'iteration')}, {total:,} tokens, {money(cost)}", DIM))


def _dimension(record: IterationRecord, name: str) -> float | None:
    found = record.dimensions.get(name)
    return None if found is None else found.score


def _compared(before: float | None, after: float | None) -> tuple[str, str, Text]:
    change = None if before is None or after is None else after - before
    if not change:
        return score(before), score(after), Text("–" if change is None else "=")
    style = GOOD if change > 0 else BAD
    return score(before), score(after), Text(f"{change:+.2f}", style=style)


def _diff_style(row: str) -> str:
    if row.startswith(("+++", "---", "diff ")):
        return "bold"
    if row.startswith("@@"):
        return "cyan"
    return {"+": GOOD, "-": BAD}.get(row[:1], "")
