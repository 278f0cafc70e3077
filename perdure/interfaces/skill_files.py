"""Skills as people write them: a Markdown file, with a few facts in front if they like."""

import re
from datetime import datetime
from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from perdure.domain.base import Frozen
from perdure.domain.errors import InvalidInput, NotFound
from perdure.domain.memory.entries import TEXT_CHARACTERS, Share, Skill
from perdure.domain.problems import problems_of
from perdure.interfaces.submission.reading import fields_of, parse

NAME_CHARACTERS = 60
PURPOSE_CHARACTERS = 200
MAX_FILE_BYTES = 256 * 1024

_FRONT = re.compile(r"\A---[ \t]*\n(?P<facts>.*?)\n?---[ \t]*(?:\n|\Z)(?P<body>.*)\Z", re.DOTALL)
_HEADING = re.compile(r"^#{1,6}\s+(?:skill:\s*)?(?P<title>.+?)\s*#*$", re.IGNORECASE | re.MULTILINE)
_PURPOSE = re.compile(r"^##\s+purpose\s*#*\n+(?P<line>[^\n]+)", re.IGNORECASE | re.MULTILINE)


class SkillFacts(Frozen):
    """What may stand between two lines of `---` at the top of a skill's file."""

    name: str | None = Field(default=None, min_length=1)
    purpose: str | None = None
    categories: tuple[str, ...] = ()
    deterministic: bool = False
    effectiveness: Share = 0.5


def read_skill(path: Path, *, now: datetime) -> Skill:
    """The skill that a Markdown file holds.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is empty, too large, no text, or has wrong facts in front.
    """
    return parse_skill(_text(path), stem=path.stem, source=f"file:{path.name}", now=now)


def parse_skill(text: str, *, stem: str, source: str, now: datetime) -> Skill:
    """A skill from its Markdown.

    Without facts in front the name is the first heading (or `stem`), and the purpose the first
    line below a heading "Purpose", or the first line that is no heading.
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
    heading = _HEADING.search(body)
    name = slug(facts.name or (heading["title"] if heading else stem)) or slug(stem)
    if not name:
        raise InvalidInput(
            f"The skill in {source} has no name that can be written in letters or digits.",
            cure="Give it one: `name:` between two lines of --- at the top.",
        )
    return Skill(
        kind="skill",
        id=f"skill-{name}",
        name=name,
        purpose=_purpose(body) if facts.purpose is None else facts.purpose,
        categories=facts.categories,
        deterministic=facts.deterministic,
        effectiveness=facts.effectiveness,
        text=body.strip(),
        source=source,
        created=now,
    )


def slug(title: str) -> str:
    """A name as it is typed: lower case, words joined by dashes, at most 60 characters."""
    words = re.findall(r"[^\W_]+", title.casefold())
    return "-".join(words)[:NAME_CHARACTERS].rstrip("-")


def _split(text: str, source: str) -> tuple[SkillFacts, str]:
    found = _FRONT.match(text)
    if found is None:
        return SkillFacts(), text
    fields = fields_of(parse(found["facts"], named=source), named=source)
    return _facts(fields, source), found["body"]


def _facts(fields: dict[str, JsonValue], source: str) -> SkillFacts:
    try:
        return SkillFacts.model_validate(fields)
    except ValidationError as error:
        problems = problems_of(error, fields, names=SkillFacts.model_fields)
        told = "\n".join(str(problem) for problem in problems)
        raise InvalidInput(
            f"The facts in front of {source} are wrong:\n{told}", cure="Correct the file."
        ) from error


def _purpose(body: str) -> str:
    named = _PURPOSE.search(body)
    plain = (line for line in body.splitlines() if line.strip() and not line.startswith("#"))
    line = named["line"] if named else next(plain, "")
    return " ".join(line.split())[:PURPOSE_CHARACTERS]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"The file {path} cannot be read: {error.strerror or error}.", cure="Check the path."
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"The file {path} is larger than {MAX_FILE_BYTES} bytes.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The file {path} is not UTF-8 text ({error.reason}).") from error
