"""Reads the inputs of an experiment: a list, a file (JSON lines, JSON, YAML, CSV), or a folder."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.experiments.plan import INPUT, MOST_INPUTS, Entry, Fields
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.plain_text import lines_of
from perdure.domain.foundation.problems import format_value, repeated
from perdure.strict_yaml import parse
from perdure.submission.file_references import References
from perdure.submission.layers import Layer
from perdure.submission.plain_values import unsound
from perdure.text_files import read_text

MOST_BYTES = 256 * 1024 * 1024
# Keys of an input that are not fields of the task's context.
OWN = frozenset({"id", "goal", "expected", "set"})
FORMS = "Give a list, or a file: .jsonl, .csv, .json, .yaml, or a folder of text files."


def read_inputs(given: str | list[JsonValue], *, folder: Path | None) -> list[JsonValue]:
    """The inputs as data, in order.

    Raises:
        NotFound: the file or folder does not exist.
        InvalidInput: it cannot be read; the message names the line.
    """
    if isinstance(given, list):
        return given
    if folder is None:
        raise InvalidInput(
            f"inputs: found {format_value(given)}; files are not read here.", cure="Send a list."
        )
    path = (folder / given).absolute()
    if path.is_dir():
        # Trials are numbered in this order, and a folder lists its files in any.
        files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] != ".")
        return [{"id": file.name, INPUT: _text(file)} for file in files]
    text = _text(path)
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return json_lines(text, named=str(path))
        case ".csv":
            return table(text, named=str(path))
        case ".json" | ".yaml" | ".yml":
            found = parse(text, named=str(path))
            if isinstance(found, list):
                return found
            raise InvalidInput(f"{path} holds {format_value(found)} instead of a list.", cure=FORMS)
        case _:
            raise InvalidInput(f"{path}: the form of the file is not known.", cure=FORMS)


def entries_of(given: Sequence[JsonValue], *, after: Sequence[Entry] = ()) -> list[Entry]:
    """The inputs, each with its name; `after` are the existing ones.

    Raises:
        InvalidInput: there is none, one has no fields, their fields differ, or a worker would
            refuse what one holds.
    """
    if not given:
        raise InvalidInput("inputs: there is none.", cure=FORMS)
    if len(given) + len(after) > MOST_INPUTS:
        raise InvalidInput(
            f"inputs: found {len(given) + len(after)}; allowed: at most {MOST_INPUTS}.",
            cure="Make several experiments of them.",
        )
    known = {entry.name for entry in after}
    first = after[0] if after else None
    entries: list[Entry] = []
    for number, item in enumerate(given, start=len(after) + 1):
        if problems := unsound(item, at=("inputs", number)):
            raise InvalidInput(f"{problems[0]}", cure="Mend it where the inputs come from.")
        entry = _entry(item, number)
        if entry.name in known:
            raise InvalidInput(
                f"inputs[{number}]: found the id {format_value(entry.name)} a second time.",
                cure="Give each input an id of its own, or none at all.",
            )
        known.add(entry.name)
        first = first or entry
        _must_match(entry, first, number)
        _must_open(entry, number)
        entries.append(entry)
    return entries


def _entry(item: JsonValue, number: int) -> Entry:
    match item:
        case str() if item.strip():
            return Entry(name=str(number), context={INPUT: item})
        case dict() if item:
            return _from_fields(item, number)
        case _:
            raise InvalidInput(
                f"inputs[{number}]: found {format_value(item)}; "
                "allowed: a text or an object with fields.",
                cure='Write {"product": "…"}: each field becomes a named input of the task.',
            )


def _from_fields(item: Fields, number: int) -> Entry:
    goal, fields = item.get("goal"), item.get("set") or {}
    if goal is not None and not isinstance(goal, str):
        raise InvalidInput(f"inputs[{number}].goal: found {format_value(goal)}; allowed: a text.")
    if not isinstance(fields, dict):
        raise InvalidInput(
            f"inputs[{number}].set: found {format_value(fields)}; allowed: fields of the task."
        )
    # Compared below, not tested for truth: 0 is an id too.
    name = item.get("id")
    return Entry(
        name=str(number) if name in (None, "") else str(name)[:100],
        goal=goal if goal and goal.strip() else None,
        context={key: value for key, value in item.items() if key not in OWN},
        fields=fields,
        expected=item.get("expected"),
    )


def _must_match(entry: Entry, first: Entry, number: int) -> None:
    """Refuse an input with other fields than the first, whose values would stay in its task."""
    missing = sorted(first.context.keys() - entry.context.keys())
    extra = sorted(entry.context.keys() - first.context.keys())
    if missing or extra:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has also {', '.join(extra)}"
        raise InvalidInput(
            f"inputs[{number}] {wrong}, unlike the first input.",
            cure="Give all inputs the same fields; null for one that is empty.",
        )
    if (entry.goal is None) != (first.goal is None):
        has = "has no goal" if entry.goal is None else "has a goal"
        raise InvalidInput(
            f"inputs[{number}] {has}, unlike the first input.",
            cure="Give each of them a goal, or none.",
        )


def _must_open(entry: Entry, number: int) -> None:
    """Refuse an input that names a file, or holds an image or PDF that cannot be used."""
    references = References()
    # Without a folder, as a worker has it that opens the trial: a refusal there would score 0.
    references.resolved(Layer(name="the input", fields={"context": entry.named_inputs}))
    for problem in references.problems:
        path = problem.path.replace("context", f"inputs[{number}]", 1)
        raise InvalidInput(
            f"{problem.model_copy(update={'path': path})}",
            cure="An input holds its content itself; a folder of text files has one in each.",
        )


def _text(path: Path) -> str:
    return read_text(path, most_bytes=MOST_BYTES, too_large="Split it.")


def json_lines(text: str, *, named: str) -> list[JsonValue]:
    """The inputs in lines of JSON, without empty lines.

    Raises:
        InvalidInput: a line is not JSON; `named` says where the text is from.
    """
    found: list[JsonValue] = []
    # Not `str.splitlines`: JSON may hold U+2028 as it is, which is no end of a line here.
    for number, line in enumerate(lines_of(text), start=1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"{named}, line {number}, is no JSON: {error}.", cure="Give one object a line."
            ) from None
    return found


def table(text: str, *, named: str) -> list[JsonValue]:
    """The inputs in the rows of a CSV; its first line has the names of their fields.

    Cells end at commas, semicolons or tabs, whichever the first line has most. An empty cell is an
    empty text, and under `expected` no answer.

    Raises:
        InvalidInput: two columns have the same name, one has none, or a row has more or fewer
            cells, or only empty ones; `named` says where the text is from.
    """
    # With line ends, since quoted cells may contain some. `str.splitlines` would end lines at more
    # signs, such as U+2028, which writers of CSV do not quote.
    lines = list(io.StringIO(text, newline=""))
    # Strict, since else a quote that nobody closes makes one cell of all rows after it.
    rows = csv.DictReader(lines, strict=True, delimiter=_delimiter(lines[0] if lines else ""))
    found: list[JsonValue] = []
    try:
        _check_head([*(rows.fieldnames or ())], named)
        for row in rows:
            if None in row or None in row.values():
                raise InvalidInput(
                    f"{named}, line {rows.line_num}, has another number of cells than the head.",
                    cure="Quote cells that hold commas.",
                )
            if not any(str(value).strip() for value in row.values()):
                raise InvalidInput(
                    f"{named}, line {rows.line_num}, has only empty cells.",
                    cure="Delete it; spreadsheets keep such lines where rows were emptied.",
                )
            if row.get("expected") == "":
                del row["expected"]
            found.append({str(name): value for name, value in row.items()})
    except csv.Error as error:
        raise InvalidInput(
            f"{named}, line {rows.line_num}: {error}.", cure="Mend the CSV."
        ) from None
    return found


def _delimiter(head: str) -> str:
    """Where cells end: spreadsheets of many countries write semicolons.

    It is the sign that the head has most, outside of quotes. Of equals it is the comma.
    """
    # Every second piece is outside of quotes.
    bare = "".join(head.split('"')[::2])
    return max(",;\t", key=bare.count)


def _check_head(names: list[str], named: str) -> None:
    """Refuse columns that would be lost, or that nobody could name."""
    twice = repeated(names)
    # Several columns without a name are told below, with the number of the first.
    if twice and twice != [""]:
        raise InvalidInput(
            f"{named}, line 1, names the column {format_value(twice[-1])} more than once.",
            cure="Give each column a name of its own.",
        )
    if "" in (bare := [name.strip() for name in names]):
        raise InvalidInput(
            f"{named}, line 1, has no name for column {bare.index('') + 1}.",
            cure="Name it, or leave it out; pandas does with to_csv(…, index=False).",
        )
