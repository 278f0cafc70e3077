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
    """Parse the inputs; `auto` takes text that begins with {, [ or a quote for JSON.

    Raises:
        InvalidInput: they cannot be read; the message names the line.
    """
    # Files of spreadsheets begin with a mark of byte order, which no JSON reader takes.
    begins = text.lstrip("\ufeff \t\r\n")
    if form == "auto":
        form = "jsonl" if begins[:1] in ("{", "[", '"') else "csv"
    if form == "csv":
        return table(begins, named=PASTED)
    whole = _list(begins) if begins.startswith("[") else None
    return json_lines(begins, named=PASTED) if whole is None else whole


def _list(text: str) -> list[JsonValue] | None:
    """Parse one JSON list; None for anything else, such as JSON Lines with a list in each line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None
