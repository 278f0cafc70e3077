"""An output as Markdown sections: each level-2 heading opens a part.

Text before the first such heading, and below a level-1 heading, belongs to no part: it is kept as
it stands, and never asked for again. A `#` inside a fenced block of code is no heading.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# A `#` that closes a heading stands apart from it, as in Markdown: that of `## C#` is a letter.
_HEADING = re.compile(r" {0,3}(#{1,2})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*\r?\n?")
_LOWER_HEADING = re.compile(r" {0,3}#{3,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_WRAPPED = re.compile(r"```(?:markdown|md)\s*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_PART_LEVEL = 2


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the output, its heading line included; only a section has a title."""

    title: str | None
    heading: str
    body: str

    @property
    def text(self) -> str:
        """The stretch, byte for byte."""
        return self.heading + self.body


def split(text: str) -> tuple[Segment, ...]:
    """The output as stretches, which joined give it back byte for byte."""
    found: list[Segment] = []
    title, heading, body = None, "", ""
    for line, fenced in _lines(text):
        opened = None if fenced else _HEADING.fullmatch(line)
        if opened is None:
            body += line
            continue
        if heading or body:
            found.append(Segment(title, heading, body))
        title = opened.group(2) if len(opened.group(1)) == _PART_LEVEL else None
        heading, body = line, ""
    return (*found, Segment(title, heading, body)) if heading or body else tuple(found)


def join(segments: Sequence[Segment]) -> str:
    """The output made of its stretches."""
    return "".join(segment.text for segment in segments)


def tidy(text: str, parts: Sequence[str]) -> str:
    """The output with every section that is asked for: missing ones are appended, empty.

    A blank output stays blank.
    """
    return _completed(text, parts) if text.strip() else ""


def part_text(text: str, part: str) -> str:
    """What stands under a heading, without it; empty when there is none."""
    section = _section(split(text), part)
    return "" if section is None else section.body.strip()


def replaced(text: str, replies: Mapping[str, str], parts: Sequence[str]) -> str:
    """The output with new versions of some sections; all else stays byte for byte."""
    segments = list(split(text))
    if any(_section(segments, part) is None for part in replies):
        segments = list(split(_completed(text, parts)))
    for part, body in replies.items():
        section = _section(segments, part)
        if section is not None:
            index = segments.index(section)
            end = "\n" if index + 1 == len(segments) else "\n\n"
            heading = section.heading.rstrip() + "\n\n"
            segments[index] = Segment(section.title, heading, body + end)
    return join(segments)


def reply(text: str, part: str) -> str:
    """The section in a model's reply, without its heading; empty when it holds another's only.

    It ends before any other section's heading, and closes what it left open, so that it can never
    reach into the sections that follow.
    """
    wrapped = _WRAPPED.fullmatch(text.strip())
    segments = split(wrapped.group(1) if wrapped else text.strip())
    section = _section(segments, part)
    if section is None:
        first = segments[0] if segments else None
        same = first is not None and _HEADING.fullmatch(first.heading)
        if first is None or (first.heading and not (same and _same(same.group(2), part))):
            return ""
        section = first
    body = _without_heading(section.body.strip(), part)
    return closed(body + "\n").strip() if body else ""


def closed(text: str) -> str:
    """The text with its last block of code closed, should it have been left open."""
    opened: str | None = None
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        opened = _fence_after(opened, line)
    # An open block would swallow the headings of the sections that are put behind it.
    return text if opened is None else f"{text.rstrip()}\n{opened}\n"


def _completed(text: str, parts: Sequence[str]) -> str:
    text = closed(text.strip() + "\n") if text.strip() else ""
    missing = [part for part in parts if _section(split(text), part) is None]
    headings = "".join(f"\n## {part}\n" for part in missing)
    return (text + headings).removeprefix("\n")


def _without_heading(body: str, part: str) -> str:
    first, _, rest = body.partition("\n")
    lower = _LOWER_HEADING.fullmatch(first)
    return rest.strip() if lower and _same(lower.group(1), part) else body


def _section(segments: Sequence[Segment], part: str) -> Segment | None:
    found = (item for item in segments if item.title is not None and _same(item.title, part))
    return next(found, None)


def _same(title: str, part: str) -> bool:
    return _plain(title) == _plain(part)


def _plain(title: str) -> str:
    return " ".join(re.sub(r"[*_`:]", " ", title).casefold().split())


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line with its end, and whether it belongs to a block of code."""
    fence: str | None = None
    # Not `splitlines`: joined, the lines must give the text back byte for byte.
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        after = _fence_after(fence, line)
        yield line, fence is not None or after is not None
        fence = after


def _fence_after(fence: str | None, line: str) -> str | None:
    mark = _FENCE.fullmatch(line.rstrip("\r\n"))
    if mark is None:
        return fence
    if fence is None:
        # A back-tick in the rest makes it a piece of code in the text, not a fence.
        return None if mark.group(1)[0] == "`" and "`" in mark.group(2) else mark.group(1)
    closes = mark.group(1)[0] == fence[0] and len(mark.group(1)) >= len(fence)
    return None if closes and not mark.group(2).strip() else fence
