"""The three ways to split an output into parts: lines, sections, keys of a JSON object."""

from collections.abc import Mapping
from typing import assert_never

from perdure.domain.evaluation.rubric import Part, PartKind, Rubric
from perdure.domain.outputs.parts import json_keys, lines, sections


def tidy_output(text: str, rubric: Rubric, kind: PartKind) -> str:
    """Normalize an output for scoring.

    Lines come in the number that is asked for; of sections the missing ones are appended, empty;
    of JSON the object alone is left. Applied twice it changes nothing more, blank lines aside.
    """
    match kind:
        case "whole":
            return text
        case "lines":
            return lines.tidy(text, _count(rubric)) if rubric.parts else _all_lines(text)
        case "sections":
            return sections.tidy(text, _names(rubric))
        case "json_keys":
            return json_keys.tidy(text)
        case _:
            assert_never(kind)


def part_text(text: str, part: Part, kind: PartKind, *, as_json: bool = False) -> str:
    """One part of an output as checks see it; empty when it is missing.

    A section comes without its heading; a text in JSON without its quotes, unless `as_json`.
    """
    match kind:
        case "whole":
            return text
        case "lines":
            return lines.part_text(text, part) if isinstance(part, int) else ""
        case "sections":
            return sections.part_text(text, str(part))
        case "json_keys":
            return json_keys.part_text(text, str(part), as_json=as_json)
        case _:
            assert_never(kind)


def part_reply(text: str, part: Part, kind: PartKind) -> str:
    """The new version of a part in a model's reply; empty when there is none that can be used."""
    match kind:
        case "whole" | "lines":
            return lines.reply(text)
        case "sections":
            return sections.reply(text, str(part))
        case "json_keys":
            return json_keys.reply(text, str(part))
        case _:
            assert_never(kind)


def replaced(text: str, replies: Mapping[Part, str], rubric: Rubric, kind: PartKind) -> str:
    """The output with new versions of some parts; all others stay word for word."""
    match kind:
        case "whole":
            return text
        case "lines":
            numbered = {part: new for part, new in replies.items() if isinstance(part, int)}
            return lines.replaced(text, numbered, _count(rubric))
        case "sections":
            return sections.replaced(text, _named(replies), _names(rubric))
        case "json_keys":
            return json_keys.replaced(text, _named(replies), _names(rubric))
        case _:
            assert_never(kind)


def _named(replies: Mapping[Part, str]) -> dict[str, str]:
    return {str(part): new for part, new in replies.items()}


def _names(rubric: Rubric) -> tuple[str, ...]:
    return tuple(str(part) for part in rubric.parts)


def _count(rubric: Rubric) -> int:
    return max((part for part in rubric.parts if isinstance(part, int)), default=0)


def _all_lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
