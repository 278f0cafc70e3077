"""Reads and writes the loop definitions of one `loops` folder, without following links."""

import contextlib
import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import JsonValue, ValidationError

from perdure.adapters.files.rooted_files import TEMPORARY_PREFIX, RootedDirectory
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PreconditionRequired,
    StoreError,
    ToolFailure,
    VersionConflict,
)
from perdure.domain.foundation.problems import Problem, problems_of
from perdure.domain.roles.definition import LoopDefinition, ModelNames
from perdure.domain.roles.definition_library import (
    BrokenDefinition,
    Origin,
    RoleFile,
    StoredDefinition,
    refusal,
)
from perdure.domain.roles.parse_definition import (
    Fields,
    content_version,
    owned_problems,
    read_definition,
)
from perdure.domain.tools.definitions import AccessLevel
from perdure.strict_yaml import parse

LOOPS = "loops"
SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 128 * 1024
_FRONT = re.compile(r"---[ \t]*\n(?P<facts>(?:.*?\n)??)---[ \t]*(?:\n(?P<body>.*))?\Z", re.DOTALL)
_OPENS = re.compile(r"---[ \t]*(?:\n|\Z)")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_LINE_END = re.compile(r"\r\n?")


class _RoleFacts(FrozenModel):
    """The front matter of a role's file, between two lines of `---`."""

    access: AccessLevel = "readonly"
    model: ModelNames | None = None
    tools: tuple[str, ...] | None = None


def stored(
    fields: JsonValue, *, origin: Origin, path: str | None = None
) -> StoredDefinition | tuple[Problem, ...]:
    """Read a stored definition, or list all its problems."""
    unusable = size_problems(fields)
    if unusable:
        return unusable
    owned = owned_problems(fields)
    bare = fields
    if owned and isinstance(fields, dict):
        # Reported once, as fields that nobody may set, and not again as unknown ones.
        names = {problem.path for problem in owned}
        bare = {name: value for name, value in fields.items() if name not in names}
    read = read_definition(bare)
    if not isinstance(read, LoopDefinition) or not isinstance(fields, dict) or owned:
        return (*owned, *(read if isinstance(read, tuple) else ()))
    return StoredDefinition(
        name=read.name,
        origin=origin,
        version=content_version(fields),
        fields=fields,
        definition=read,
        path=path,
    )


def role_file(text: str, *, name: str) -> RoleFile:
    """The role in a Markdown file: front matter, then the system prompt.

    Raises:
        InvalidInput: the front matter is wrong or has no end, or there is no prompt.
    """
    text = _BLANK_LINES.sub("", _LINE_END.sub("\n", text.removeprefix("\ufeff")))
    front = _FRONT.match(text)
    if front is None and _OPENS.match(text):
        # Else its restrictions would be words to the model, and hold nobody.
        raise InvalidInput(
            f"The front matter of the role {name} has no end.",
            cure="Close it with a line of ---, before the system prompt.",
        )
    facts = parse(front["facts"], named=f"the role {name}") if front else None
    body = ((front["body"] or "") if front else text).strip()
    if not body:
        raise InvalidInput(f"The role {name} has no system prompt.", cure="Write it as Markdown.")
    try:
        read = _RoleFacts.model_validate(facts or {})
    except ValidationError as error:
        wrong = problems_of(error, facts, names=_RoleFacts.model_fields)
        raise refusal(wrong, what=f"The role {name}") from error
    return RoleFile(name=name, access=read.access, model=read.model, tools=read.tools, system=body)


def size_problems(fields: JsonValue) -> tuple[Problem, ...]:
    """A problem if a definition is too large for the input of a run, or no valid Unicode."""
    try:
        size = len(json.dumps(fields, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError:
        return (Problem(path="input", found="half a character (a surrogate)", allowed="texts"),)
    if size <= MAX_BYTES:
        return ()
    return (Problem(path="input", found=f"{size:,} bytes", allowed=f"at most {MAX_BYTES:,}"),)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The content of a folder; of two definitions with one name the second counts as broken."""

    definitions: dict[str, StoredDefinition]
    broken: tuple[BrokenDefinition, ...] = ()


class LoopFolder:
    """The definitions below a workspace or the home folder.

    Args:
        root: the folder that contains `loops`.
        origin: the origin of its definitions.
    """

    def __init__(self, root: Path, *, origin: Origin) -> None:
        self._root = root
        self._origin: Origin = origin

    def shelf(self) -> Shelf:
        """Everything in the folder; nothing if it does not exist."""
        if not self._root.is_dir():
            return Shelf({})
        with RootedDirectory(self._root) as beneath:
            return self._read(beneath)

    def add(self, fields: Fields) -> StoredDefinition:
        """Write a new definition; raises `Conflict` if its name or its file exists."""
        new = self._checked(fields)
        path = f"{new.name}.yaml"
        with self._held() as (beneath, parent):
            # The file too: one that cannot be read defines no name, and must not be overwritten.
            if new.name in self._read(beneath).definitions or beneath.entry((LOOPS, path)):
                raise taken(new.name, str(self._root / LOOPS))
            beneath.replace(parent, path, self._text(fields, path))
        return self._at(new, path)

    def change(self, name: str, fields: Fields, *, version: str | None) -> StoredDefinition:
        """Replace a definition that is at `version`; its file keeps its name and its format."""
        new = self._checked(fields)
        if new.name != name:
            wrong = Problem(path="name", found=new.name, allowed=f"{name}; names do not change")
            raise refusal((wrong,), what="The definition")
        with self._held() as (beneath, parent):
            old = self._current(beneath, name, version)
            path = Path(old.path or "").name
            beneath.replace(parent, path, self._text(fields, path))
        return self._at(new, path)

    def remove(self, name: str, *, version: str | None) -> None:
        with self._held() as (beneath, _):
            old = self._current(beneath, name, version)
            beneath.remove((LOOPS, Path(old.path or "").name))

    @contextlib.contextmanager
    def _held(self) -> Generator[tuple[RootedDirectory, int]]:
        """The folder, created if needed and locked, so that a checked version cannot change."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with (
                RootedDirectory(self._root) as beneath,
                beneath.locked((LOOPS,), create=True) as parent,
            ):
                yield beneath, parent
        except (ToolFailure, OSError) as error:
            raise StoreError(
                f"The folder {self._root / LOOPS} cannot be written: {error}.",
                cure="Check that it is a plain folder and may be written.",
            ) from error

    def _current(
        self, beneath: RootedDirectory, name: str, version: str | None
    ) -> StoredDefinition:
        old = self._read(beneath).definitions.get(name)
        if old is None:
            raise NotFound(f"There is no definition {name!r} in {self._root / LOOPS}.")
        if version is None:
            raise PreconditionRequired(
                f"A change of {name} must say which version it is meant for.",
                cure=f"Look at it first and send its version (the ETag), now {old.version}.",
            )
        # An ETag, which a proxy may have made a weak one.
        if version.strip().removeprefix("W/").strip('"') != old.version:
            raise VersionConflict(
                f"{name} was changed meanwhile: it is at {old.version}, not at {version}.",
                cure="Look at it again and repeat the change on what is there now.",
            )
        return old

    def _read(self, beneath: RootedDirectory) -> Shelf:
        found: dict[str, StoredDefinition] = {}
        broken: list[BrokenDefinition] = []
        for name in self._names(beneath):
            path = str(self._root / LOOPS / name)
            read = self._one(beneath, name, path)
            if isinstance(read, tuple):
                broken.append(BrokenDefinition(path=path, problems=read))
            elif read.name in found:
                first = found[read.name].path
                twice = Problem(path="name", found=read.name, allowed=f"a name not in {first}")
                broken.append(BrokenDefinition(path=path, problems=(twice,)))
            else:
                found[read.name] = read
        return Shelf(found, tuple(broken))

    def _names(self, beneath: RootedDirectory) -> list[str]:
        try:
            entries = beneath.entries((LOOPS,))
        except ToolFailure:
            return []  # absent, a file or a link: no definitions
        # Temporary files belong to a process that is writing a definition now.
        return [
            entry.name
            for entry in entries
            if entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith(TEMPORARY_PREFIX)
        ]

    def _one(
        self, beneath: RootedDirectory, name: str, path: str
    ) -> StoredDefinition | tuple[Problem, ...]:
        try:
            # Some editors of Windows write a mark at the beginning, which is no part of the text.
            text = beneath.read((LOOPS, name), cap=MAX_BYTES).decode("utf-8-sig")
            fields = parse(text, named=name)
        except UnicodeDecodeError:
            return (Problem(path=name, found="other bytes", allowed="UTF-8 text"),)
        except (ToolFailure, InvalidInput) as error:
            return (Problem(path=name, found=str(error), allowed="a definition as YAML or JSON"),)
        return stored(fields, origin=self._origin, path=path)

    def _checked(self, fields: Fields) -> StoredDefinition:
        read = stored(fields, origin=self._origin)
        if isinstance(read, tuple):
            raise refusal(read, what="The definition")
        return read

    def _text(self, fields: Fields, path: str) -> bytes:
        """The file's content; it is read back here to make sure that it means the same fields."""
        version = content_version(fields)
        for text in _texts(fields, is_json=path.lower().endswith(".json")):
            with contextlib.suppress(UnicodeEncodeError, InvalidInput):
                data = text.encode("utf-8")
                if len(data) > MAX_BYTES:
                    continue  # it could not be read again, and so neither changed nor removed
                again = parse(text, named=path)
                if isinstance(again, dict) and content_version(again) == version:
                    return data
        wrong = Problem(path="input", found="values no file can hold", allowed="plain JSON values")
        raise refusal((wrong,), what="The definition")

    def _at(self, new: StoredDefinition, path: str) -> StoredDefinition:
        return new.model_copy(update={"path": str(self._root / LOOPS / path)})


def _texts(fields: Fields, *, is_json: bool) -> Generator[str]:
    """The same content in several forms, the most readable first, and the smallest last."""
    if is_json:
        yield json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    else:
        yield yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    # YAML reads some characters as line ends that JSON allows in a text. ASCII JSON escapes them.
    yield json.dumps(fields, indent=2) + "\n"
    # What `size_problems` counts. Indents and quotes may make another form several times as large.
    yield json.dumps(fields, ensure_ascii=False)


def taken(name: str, where: str) -> Conflict:
    """The error of a name that exists already."""
    return Conflict(
        f"There is a loop definition {name!r} already ({where}).",
        cure="Choose another name, or update the one that is there.",
    )
