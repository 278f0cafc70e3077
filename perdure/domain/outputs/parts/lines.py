"""An output as lines: one part each, numbered from 1, blank ones left out of a new draft."""

from collections.abc import Mapping, Sequence


def tidy(text: str, count: int) -> str:
    """The first `count` lines with text, one each; missing ones are empty, surplus ones go."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][:count]
    return "\n".join([*lines, *([""] * (count - len(lines)))])


def part_text(text: str, part: int) -> str:
    """Line `part`, from 1; empty when there is none."""
    lines = text.split("\n")
    return lines[part - 1].strip() if part <= len(lines) else ""


def replaced(text: str, replies: Mapping[int, str], count: int) -> str:
    """The output with new versions of some lines; empty ones hold their place."""
    lines: Sequence[str] = text.split("\n")
    lines = [*lines, *([""] * (count - len(lines)))]
    return "\n".join(replies.get(n, line) for n, line in enumerate(lines, start=1))


def reply(text: str) -> str:
    """The line in a model's reply: its first with text, without quotes and list marks."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return first.strip("\"'`*").removeprefix("- ").strip()
