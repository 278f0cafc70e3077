"""The tasks that the process for foreign text can do.

A task imports what it needs when it runs, so that a process starts with little.
"""

import ast
import difflib
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Work:
    """One task: a function of JSON values, and up to how many bytes of input it is always fast."""

    work: Callable[..., JsonValue]
    harmless: int


def differences(old: list[str], new: list[str]) -> JsonValue:
    """The opcodes of `difflib` that turn one list of lines into another."""
    # By default difflib takes lines that are frequent in a text of 200 lines for junk.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [list(step) for step in matcher.get_opcodes()]


def document(path: str, text: str) -> JsonValue:
    """Why a file does not parse as what its suffix says; empty if it does."""
    suffix = PurePosixPath(path).suffix.lower()
    try:
        match suffix:
            case ".py":
                ast.parse(text)
            case ".json":
                json.loads(text)
            case ".jsonl":
                from perdure.domain.foundation.plain_text import lines_of

                for line in filter(str.strip, lines_of(text)):
                    json.loads(line)
            case ".yaml" | ".yml":
                _yaml(text)
            case ".toml":
                tomllib.loads(text)
            case _:
                return ""
    # What is nested too deeply for these readers is no file that others could read either.
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"does not parse: {' '.join(str(error).split())}"
    return ""


def schema(wanted: dict[str, JsonValue], value: JsonValue) -> JsonValue:
    """The errors of a value against a JSON schema; `{"unusable": …}` if the schema is invalid."""
    from perdure.adapters.checks.schemas import schema_errors
    from perdure.extending.check_decorator import CheckFailed

    try:
        return [*schema_errors(wanted, value)]
    except CheckFailed as error:
        return {"unusable": str(error)}


def pages(content: str) -> JsonValue:
    """How many pages a PDF in base64 has, or why it cannot be read and what to do."""
    import base64
    import io
    import logging

    import pypdf
    from pypdf.errors import PyPdfError

    # pypdf warns of each fault that it repairs, and the last line on stderr is taken for an error.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(base64.b64decode(content)))
        if reader.is_encrypted:
            return "it is encrypted; save it without a password"
        count = len(reader.pages)
    # On malformed files pypdf also raises ordinary errors of Python.
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        return f"{why.rstrip('.')[:200]}; print it to a new PDF"
    return count or "it has no page; print it to a new PDF"


def markdown(page: str) -> JsonValue:
    """An HTML page as Markdown, with a note at its end of what could not be read."""
    from html_to_markdown import convert

    read = convert(page)
    # Without the note, a page whose tags are nested too deeply would look empty.
    missing = [f"[Part of this page is missing: {one.message}]" for one in read.warnings]
    return "\n\n".join(filter(None, ((read.content or "").strip(), *missing)))


def links(text: str) -> JsonValue:
    """Where the inline links of a Markdown text lead, as it writes them; those in code are none."""
    from markdown_it import MarkdownIt

    # Without references, or a footnote of one word would be taken for one (`[^1]: Ibid.`).
    reader = MarkdownIt("commonmark").disable("reference")
    vars(reader)["normalizeLink"] = str  # which would write `é` and spaces as `%` and digits
    spans = [span for block in reader.parse(text) for span in block.children or ()]
    return [str(span.attrs["href"]) for span in spans if span.type == "link_open"]


def _yaml(text: str) -> None:
    import yaml

    # libyaml's parser, where PyYAML was built with it: thirty times as fast, with the same errors.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Composed and not constructed: a few lines whose `<<` merge each other make billions of
        # values, and a tag such as `!Ref` means something to whoever reads the file.
        for _ in yaml.compose_all(text, Loader=loader):
            pass
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


# A PDF is always read in the process: even a short one can hold streams that expand without end.
TASKS = {
    "differences": Work(differences, harmless=2_000),
    "document": Work(document, harmless=4_000),
    "schema": Work(schema, harmless=8_000),
    "pages": Work(pages, harmless=0),
    # Tags that are nested deeply take time that grows with the square of the text.
    "markdown": Work(markdown, harmless=20_000),
    "links": Work(links, harmless=8_000),
}
