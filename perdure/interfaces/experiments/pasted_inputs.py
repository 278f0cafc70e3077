"""Reads an experiment's inputs from pasted or uploaded text: JSON or CSV."""

import json

from pydantic import JsonValue

from perdure.submission.experiment_inputs import json_lines, table

PASTED = "the inputs"
INPUT_FORMS = {
    "auto": "JSON or CSV, as it looks",
    "jsonl": "JSON, one input a line",
    "csv": "CSV, names in the first line",
}


def inputs_of(text: str, form: str) -> list[JsonValue]:
    """Parse the inputs; `auto` takes text that begins with { or [, or with a JSON text, for JSON.

    Raises:
        InvalidInput: they cannot be read; the message names the line.
    """
    # Files of spreadsheets begin with a mark of byte order, which no JSON reader takes.
    begins = text.lstrip("\ufeff \t\r\n")
    if form == "auto":
        form = "jsonl" if begins[:1] in ("{", "[") or _is_text(begins) else "csv"
    if form == "csv":
        # Tabs stay at both ends: there they are the ends of empty cells.
        return table(text.lstrip("\ufeff \r\n").rstrip("\r\n"), named=PASTED)
    whole = _list(begins) if begins.startswith("[") else None
    return json_lines(begins, named=PASTED) if whole is None else whole


def _is_text(text: str) -> bool:
    """Whether the first line is a JSON text; names of columns may be in quotes as well."""
    line = text.partition("\n")[0].rstrip()
    try:
        return line.count('"') > 1 and isinstance(json.loads(line), str)
    except ValueError:
        return False


def _list(text: str) -> list[JsonValue] | None:
    """Parse one JSON list; None for anything else, such as JSON Lines with a list in each line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None
