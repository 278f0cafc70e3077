"""Skills as people write them: a Markdown file with optional front matter."""

from datetime import datetime
from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.memory.entries import TEXT_CHARACTERS, Share, Skill
from perdure.domain.memory.skills import purpose_of, slug, split_front, title_of
from perdure.strict_yaml import parse
from perdure.submission.task_file import fields_of
from perdure.text_files import read_text

MOST_BYTES = 256 * 1024


class SkillFacts(FrozenModel):
    """The optional facts between two lines of `---` at the top of a skill's file."""

    name: str | None = Field(default=None, min_length=1)
    purpose: str | None = None
    categories: tuple[str, ...] = ()
    deterministic: bool = False
    effectiveness: Share = 0.5


def read_skill(path: Path, *, now: datetime) -> Skill:
    """Read a skill from a Markdown file.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is empty, too large or not text, or its front matter is wrong.
    """
    text = read_text(path, most_bytes=MOST_BYTES, too_large="Shorten it, or make several skills.")
    # Line ends of Windows, or a blank line, would hide the front matter, and make a new version of
    # the same text.
    plain = text.replace("\r\n", "\n").strip()
    return parse_skill(plain, stem=path.stem, source=f"file:{path.name}", now=now)


def parse_skill(text: str, *, stem: str, source: str, now: datetime) -> Skill:
    """Parse a skill from Markdown.

    Without front matter the name is the first heading (or `stem`), and the purpose is the first
    line below a heading "Purpose", else the first line that is no heading.
    """
    facts, body = _split(text, source)
    if not body.strip():
        raise InvalidInput(
            f"The skill in {source} has no text.", cure="Write the procedure as Markdown."
        )
    if len(body) > TEXT_CHARACTERS:
        raise InvalidInput(
            f"The skill in {source} has {len(body):,} characters; at most {TEXT_CHARACTERS:,} fit.",
            cure="Cut it, or make several skills of it.",
        )
    name = slug(facts.name or title_of(body) or stem) or slug(stem)
    if not name:
        raise InvalidInput(
            f"The skill in {source} has no name with letters or digits.",
            cure="Give it one: `name:` between two lines of --- at the top.",
        )
    return Skill(
        kind="skill",
        id=f"skill-{name}",
        name=name,
        purpose=purpose_of(body) if facts.purpose is None else facts.purpose,
        categories=facts.categories,
        deterministic=facts.deterministic,
        effectiveness=facts.effectiveness,
        text=body.strip(),
        source=source,
        created=now,
    )


def _split(text: str, source: str) -> tuple[SkillFacts, str]:
    front, body = split_front(text)
    if body == text:
        return SkillFacts(), text
    fields = fields_of(parse(front, named=source), named=source)
    return _facts(fields, source), body


def _facts(fields: dict[str, JsonValue], source: str) -> SkillFacts:
    try:
        return SkillFacts.model_validate(fields)
    except ValidationError as error:
        problems = problems_of(error, fields, names=SkillFacts.model_fields)
        told = "\n".join(str(problem) for problem in problems)
        raise InvalidInput(
            f"The front matter of {source} is wrong:\n{told}", cure="Correct the file."
        ) from error
