"""What the Markdown of a skill says of itself: its name, its purpose, and its line in a catalog."""

import hashlib
import re

NAME_CHARACTERS = 60
PURPOSE_CHARACTERS = 200
LINE_CHARACTERS = 150
HASH_CHARACTERS = 10

_HEADING = re.compile(
    r"^#{1,6}[ \t]+(?:skill:[ \t]*)?(?P<title>\S.*?)[ \t]*#*$", re.IGNORECASE | re.MULTILINE
)
_SECTIONS = frozenset(
    {
        "example", "examples", "input", "inputs", "instructions", "notes", "output", "outputs",
        "overview", "prerequisites", "procedure", "purpose", "steps", "summary", "usage",
        "when-to-use",
    }
)  # fmt: skip
_PURPOSE = re.compile(r"^##[ \t]+purpose[ \t]*#*\n+(?P<line>[^\n]+)", re.IGNORECASE | re.MULTILINE)


def slug(title: str) -> str:
    """A name as it is typed: lower case, words joined by dashes, at most 60 characters."""
    words = re.findall(r"[^\W_]+", title.casefold())
    return "-".join(words)[:NAME_CHARACTERS].rstrip("-")


def title_of(markdown: str) -> str | None:
    """The first heading that names the skill, without the word "Skill:"; None for none.

    Headings of its sections name nothing: all skills have them.
    """
    titles = (found["title"] for found in _HEADING.finditer(markdown))
    return next((title for title in titles if slug(title) not in _SECTIONS), None)


def purpose_of(markdown: str) -> str:
    """The first line below a heading "Purpose", or the first line that is no heading."""
    named = _PURPOSE.search(markdown)
    plain = (line for line in markdown.splitlines() if line.strip() and not line.startswith("#"))
    line = named["line"] if named else next(plain, "")
    return " ".join(line.split())[:PURPOSE_CHARACTERS]


def skill_name(markdown: str) -> str:
    """The name of a skill; an untitled one is called by its content, so none covers another."""
    named = slug(title_of(markdown) or "")
    if named:
        return named
    content = " ".join(markdown.split()).encode("utf-8", "surrogatepass")
    return f"skill-{hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]}"


def catalog_line(name: str, markdown: str) -> str:
    """A skill as a manager sees it: its name, and what it is for."""
    about = purpose_of(markdown)
    line = f"{name}: {about}" if about else name
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1]}…"
