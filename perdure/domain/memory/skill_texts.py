"""Skills as a model reads them, and as people write them: Markdown with a few facts in front."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.prompt_blocks import one_line, provenance
from perdure.domain.memory.skills import FULL_TEXTS, Chosen

PURPOSE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ToldSkills:
    """The block of skills, those that it holds, and the names of those that did not fit."""

    text: str
    shown: tuple[Chosen, ...]
    left_out: tuple[str, ...]


def tell_skills(chosen: Sequence[Chosen], *, limit: int) -> ToldSkills:
    """The first three skills whole, the others as a line, within `limit` estimated tokens.

    A skill whose whole text does not fit is given as a line; if that does not fit, it is left out.
    """
    parts: list[str] = []
    shown: list[Chosen] = []
    left_out: list[str] = []
    whole, free = 0, limit
    for item in chosen:
        full, line = _full(item), _line(item)
        if whole < FULL_TEXTS and _tokens(full) <= free:
            part, whole = full, whole + 1
        elif _tokens(line) <= free:
            part = line
        else:
            left_out.append(item.skill.name)
            continue
        free -= _tokens(part)
        parts.append(part)
        shown.append(item)
    return ToldSkills("\n\n".join(parts), tuple(shown), tuple(left_out))


def _full(item: Chosen) -> str:
    return f"{_line(item)}\n{item.skill.text.strip()}" if item.skill.text.strip() else _line(item)


def _line(item: Chosen) -> str:
    skill = item.skill
    purpose = one_line(skill.purpose, PURPOSE_CHARACTERS)
    name = one_line(skill.name, PURPOSE_CHARACTERS)
    about = f": {purpose}" if purpose else ""
    return f"Skill “{name}”{about} (version {skill.version}, {provenance(skill)})"


def _tokens(part: str) -> int:
    return estimate(f"{part}\n\n").total
