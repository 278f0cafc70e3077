"""The skills of a working folder as files (port `SkillFolder`): `skills/NAME.md`."""

import asyncio
import unicodedata

from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.domain.delegation.skills import (
    FOLDER,
    MOST_CHARACTERS,
    MOST_SKILLS,
    SkillText,
    SkillTexts,
)
from perdure.domain.foundation.errors import InvalidInput, ToolFailure
from perdure.domain.memory.skills import catalog_line, slug, split_front
from perdure.strict_yaml import parse

SUFFIX = ".md"
# UTF-8 needs at most four bytes for a character.
READ_BYTES = 4 * MOST_CHARACTERS
ABOUT = ("purpose", "description")


class WorkingSkills:
    """`SkillFolder` for the folder `skills`; a link in its place is refused."""

    async def read(self, root: str) -> SkillTexts:
        return await asyncio.to_thread(_read, root)

    async def write(self, root: str, *, name: str, text: str) -> None:
        await asyncio.to_thread(_write, root, name, text)


def _write(root: str, name: str, text: str) -> None:
    with RootedDirectory(root) as files, files.folder((FOLDER,), create=True) as folder:
        files.replace(folder, f"{name}{SUFFIX}", f"{text.strip()}\n".encode())


def _read(root: str) -> SkillTexts:
    found: dict[str, SkillText] = {}
    problems: list[str] = []
    with RootedDirectory(root, guarded=True) as files:
        try:
            names = _names(files)
        except ToolFailure as failure:
            return SkillTexts(problems=(f"The folder {FOLDER} was not read: {failure}",))
        # Sorted by name, so that every worker takes the same first ones.
        for name in names[:MOST_SKILLS]:
            try:
                skill = _skill(name, files.read((FOLDER, name), cap=READ_BYTES))
                if skill.name in found:
                    raise ValueError(f"another file is the skill {skill.name} already.")
            except (ToolFailure, ValueError) as error:
                problems.append(f"{FOLDER}/{name} was not read as a skill: {error}")
            else:
                found[skill.name] = skill
    if len(names) > MOST_SKILLS:
        problems.append(
            f"{FOLDER} holds {len(names)} files; the first {MOST_SKILLS} were read as skills."
        )
    return SkillTexts(tuple(found.values()), tuple(problems))


def _names(files: RootedDirectory) -> list[str]:
    """The names of the Markdown files in the folder; none if it does not exist."""
    entry = files.entry((FOLDER,))
    if entry is None or entry.kind == "file":
        return []
    return [
        one.name
        for one in files.entries((FOLDER,))
        if one.name.casefold().endswith(SUFFIX) and one.kind != "folder"
    ]


def _skill(file: str, data: bytes) -> SkillText:
    """The skill in a file, named after it; raises `ValueError` if the file has none."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason}).") from error
    purpose, body = _split(text)
    # File systems keep both spellings of é apart; people cannot.
    name = slug(unicodedata.normalize("NFC", file[: -len(SUFFIX)]))
    if not name:
        raise ValueError("its name has no letters or digits.")
    if not body:
        raise ValueError("it is empty.")
    if len(body) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(body):,} characters; at most {MOST_CHARACTERS:,} fit.")
    about = f"## Purpose\n{purpose}" if purpose else body
    return SkillText(name=name, markdown=body, line=catalog_line(name, about))


def _split(text: str) -> tuple[str, str]:
    """The purpose in the front matter, and the text below it."""
    front, body = split_front(text)
    try:
        # Bounded: whoever wrote the folder must not stop the worker.
        facts = parse(front, named=FOLDER)
    except InvalidInput:
        # Front matter that cannot be read is ignored, and is still no part of the procedure.
        facts = None
    fields = facts if isinstance(facts, dict) else {}
    said = (fields.get(key) for key in ABOUT)
    purpose = next((one for one in said if isinstance(one, str) and one.strip()), "")
    return " ".join(purpose.split()), body.strip()
