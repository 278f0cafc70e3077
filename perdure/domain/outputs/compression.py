"""Compresses a previous output for the next prompt, and puts back what was left out.

Whatever is folded leaves a mark that says what it was. A reply that repeats a mark keeps the
folded passage word for word: `expand` puts it back from the output that was compressed. So a short
prompt costs no text, and an unchanged passage need not be written again.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from perdure.domain.outputs.content_type import code_lines, is_heading, kind_of, python_tree

UNCOMPRESSED_CHARACTERS = 2_000
LONG_STATEMENT_LINES = 8
LONG_LEAF_CHARACTERS = 120
PREVIEW_CHARACTERS = 40
HASH_CHARACTERS = 6

# With the indent before it, since the passage that comes back brings its own.
_LINES_MARK = re.compile(
    r"(?:^[ \t]+)?\[\.\.\. lines (\d{1,7})-(\d{1,7}) unchanged #([0-9a-f]{6})[^\n]*? \.\.\.\]",
    re.MULTILINE,
)
_LEAF_MARK = re.compile(r"\[\.\.\. \d{1,9} characters unchanged #([0-9a-f]{6})[^\"\n]*? \.\.\.\]")
_STRING = re.compile(r"\"(?P<value>(?:[^\"\\]|\\.)*)\"(?P<key>\s*:)?")
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.")
_NOT_SHOWN = re.compile(r"[\[\]\"'\\\x00-\x1f]+")
_CONTAINER = re.compile(
    r"^\s*(?:(?:export|public|private|protected|static|abstract|final|pub|default|sealed)\s+)*"
    r"(?:class|struct|impl|interface|namespace|module|mod|trait|enum|package|object|extern)\b"
)


@dataclass(frozen=True, slots=True)
class Compressed:
    """A shortened output: `folds` passages with `left_out` characters were folded."""

    text: str
    folds: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Body:
    """A passage that may be folded: its lines from 1, ends included, and what it is called.

    `opener` is the line that introduces it, such as a signature; 0 for none.
    """

    first: int
    last: int
    name: str
    opener: int = 0


def compress(text: str, *, keep: Collection[int] = (), pointed: Collection[int] = ()) -> Compressed:
    """Replace passages that the model need not see by marks.

    Code keeps signatures, imports and short statements, text its first paragraph and all headings,
    JSON its structure. A text of at most 2,000 characters stays whole, and so does one that would
    not get shorter.

    Args:
        text: the output.
        keep: the lines, from 1, that must be seen; in prose with their paragraph.
        pointed: lines that something is wrong with: a signature with its whole body, a heading
            with its section.
    """
    if len(text) <= UNCOMPRESSED_CHARACTERS:
        return Compressed(text)
    wanted = frozenset(pointed)
    kept = wanted | frozenset(keep)
    match kind_of(text):
        case "json":
            found = _compress_json(text, kept)
        case "code":
            bodies = [body for body in _code_bodies(text) if body.opener not in wanted]
            found = _fold(text, bodies, kept)
        case "text":
            found = _fold(text, _unseen_paragraphs(text, kept, wanted), kept)
    return found if len(found.text) < len(text) else Compressed(text)


def expand(reply: str, previous: str) -> str:
    """Replace every mark of `compress(previous)` in a reply by its passage.

    A mark that does not fit the previous output stays as it is, so that an evaluation can see it.
    """
    if "unchanged #" not in reply:
        return reply
    # Not `splitlines`, which ends lines at other characters too: marks count line feeds.
    lines = previous.split("\n")

    def passage(mark: re.Match[str]) -> str:
        folded = "\n".join(lines[int(mark[1]) - 1 : int(mark[2])])
        return folded if _digest(folded) == mark[3] else mark[0]

    # As they stand, escapes included: the mark is between quotation marks in the reply too.
    leaves = {_digest(leaf["value"]): leaf["value"] for leaf in _STRING.finditer(previous)}
    restored = _LINES_MARK.sub(passage, reply)
    return _LEAF_MARK.sub(lambda mark: leaves.get(mark[1], mark[0]), restored)


def _fold(text: str, bodies: Sequence[_Body], keep: frozenset[int]) -> Compressed:
    """Fold the bodies, but for the lines that are kept."""
    lines = text.split("\n")
    shown, folds, left_out, at = list[str](), 0, 0, 1
    for run in _runs(bodies, keep):
        folded = "\n".join(lines[run.first - 1 : run.last])
        indent = folded[: len(folded) - len(folded.lstrip(" \t"))] if folded[:1] in " \t" else ""
        name = f": {run.name}" if run.name else ""
        mark = f"{indent}[... lines {run.first}-{run.last} unchanged #{_digest(folded)}{name} ...]"
        if len(mark) >= len(folded):
            continue
        shown += [*lines[at - 1 : run.first - 1], mark]
        folds, left_out, at = folds + 1, left_out + len(folded), run.last + 1
    return Compressed("\n".join([*shown, *lines[at - 1 :]]), folds, left_out)


def _runs(bodies: Sequence[_Body], keep: frozenset[int]) -> Iterator[_Body]:
    """The parts of the bodies between kept lines."""
    for body in bodies:
        start = body.first
        # One further than the body, which ends its last part.
        for number in range(body.first, body.last + 2):
            if number <= body.last and number not in keep:
                continue
            if number > start:
                yield _Body(start, number - 1, body.name)
            start = number + 1


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_CHARACTERS]


def _preview(text: str) -> str:
    """The first words, without what could be taken for the end of a mark or of a string."""
    # More than is shown, as runs of blanks and marks go; all of a long text would take time.
    words = " ".join(_NOT_SHOWN.sub(" ", text[: 4 * PREVIEW_CHARACTERS]).split())
    if len(words) <= PREVIEW_CHARACTERS:
        return words
    return words[:PREVIEW_CHARACTERS].rsplit(" ", 1)[0]


def _unseen_paragraphs(text: str, keep: frozenset[int], pointed: frozenset[int]) -> list[_Body]:
    """Everything but the first paragraph, the headings and what is kept or pointed at."""
    lines = text.split("\n")
    found: list[_Body] = []
    first, wanted, joined = True, False, False
    for one in _paragraphs(lines):
        heading = is_heading(lines[one.first - 1])
        if heading:
            wanted = one.first in pointed
        seen = heading or first or wanted or not keep.isdisjoint(range(one.first, one.last + 1))
        if not seen and joined:
            # Neighbours share one mark, with the blank lines between them.
            found[-1] = _Body(found[-1].first, one.last, found[-1].name)
        elif not seen:
            found.append(one)
        first, joined = first and heading, not seen
    return found


def _paragraphs(lines: Sequence[str]) -> Iterator[_Body]:
    """Runs of lines that are not blank; a heading is a paragraph of its own."""
    start: int | None = None
    for number, line in enumerate([*lines, ""], start=1):
        ends = not line.strip() or is_heading(line)
        if ends and start is not None:
            yield _Body(start, number - 1, _preview(lines[start - 1]))
            start = None
        if line.strip() and is_heading(line):
            yield _Body(number, number, "")
        elif line.strip() and start is None:
            start = number


def _code_bodies(text: str) -> list[_Body]:
    tree = python_tree(text)
    bodies = list(_python_bodies(tree.body)) if tree else list(_indented_bodies(code_lines(text)))
    return sorted(bodies, key=lambda body: body.first)


def _python_bodies(nodes: Sequence[ast.stmt], within: str = "") -> Iterator[_Body]:
    for node in nodes:
        last = node.end_lineno or node.lineno
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                first = node.body[0].lineno
                # A body on the line of its signature cannot be folded without it.
                if first > node.lineno:
                    yield _Body(first, last, f"body of {within}{node.name}", node.lineno)
            case ast.ClassDef():
                yield from _python_bodies(node.body, f"{within}{node.name}.")
            case ast.Import() | ast.ImportFrom():
                pass
            case _ if last - node.lineno >= LONG_STATEMENT_LINES:
                yield _Body(node.lineno + 1, last, "")
            case _:
                pass


def _indented_bodies(lines: Sequence[str]) -> Iterator[_Body]:
    """What is indented below a line that opens a block, of whatever language it is."""
    number = 0
    while number < len(lines):
        line = lines[number]
        end = _block_end(lines, number)
        if not line.strip() or _CONTAINER.match(line) or end == number:
            number += 1
            continue
        name = f"body of {_preview(line.strip(' {:'))}"
        yield _Body(number + 2, end + 1, name, number + 1)
        number = end + 1


def _block_end(lines: Sequence[str], opener: int) -> int:
    """The index of the last line that is indented deeper than the opener; itself for none."""
    depth, end = _indent(lines[opener]), opener
    for number in range(opener + 1, len(lines)):
        if lines[number].strip():
            if _indent(lines[number]) <= depth:
                break
            end = number
    return end


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def _compress_json(text: str, keep: frozenset[int]) -> Compressed:
    """Long strings become marks inside their quotation marks; nothing else changes."""
    folds = left_out = 0
    line_of = _line_counter(text)

    def leaf(found: re.Match[str]) -> str:
        nonlocal folds, left_out
        value = found["value"]
        short = len(value) <= LONG_LEAF_CHARACTERS
        if found["key"] or short or line_of(found.start()) in keep:
            return found[0]
        folds, left_out = folds + 1, left_out + len(value)
        # Without its backslash, which a mark may not hold, an escape would read as letters.
        shown = _preview(_ESCAPE.sub(" ", value))
        return f'"[... {len(value)} characters unchanged #{_digest(value)}: {shown} ...]"'

    return Compressed(_STRING.sub(leaf, text), folds, left_out)


def _line_counter(text: str) -> Callable[[int], int]:
    """Line numbers of ascending positions, counted on from the last one."""
    at, line = 0, 1

    def count(position: int) -> int:
        nonlocal at, line
        line += text.count("\n", at, position)
        at = position
        return line

    return count
