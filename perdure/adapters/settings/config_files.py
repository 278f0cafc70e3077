"""`perdure config`: shows the settings that apply, and edits those in `perdure.yaml`."""

import errno
import json
import os
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin

import yaml
from pydantic import JsonValue, SecretStr

from perdure.adapters.logging.redacting import secrets_of_url
from perdure.adapters.settings.fields import LIST
from perdure.adapters.settings.files import (
    FILE,
    MAX_BYTES,
    NEVER,
    OLD_KEYS,
    SettingsFile,
    read_settings,
    replace_file,
    trust,
    why_not_in_file,
)
from perdure.adapters.settings.layers import names_in, variables_of
from perdure.adapters.settings.secret_references import is_reference
from perdure.adapters.settings.variables import GivenSettings, Settings
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.installation.configuration import Setting
from perdure.strict_yaml import parse
from perdure.text_files import read_text

HIDDEN = "(set, not shown)"
KNOWN = frozenset(Settings.model_fields)


class ConfigFiles:
    """The settings files of one home folder and one working folder."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home, self._folder = home, folder

    def settings(self) -> list[Setting]:
        """Each setting with its source, sorted by name.

        Raises:
            InvalidInput: a file or a variable is wrong.
        """
        found = Settings.found({"home": self._home}, folder=self._folder)
        # Without variables, which do not override the file of the home for services.
        services = GivenSettings.load(home=self._home)
        return [
            Setting(
                name=name,
                value=_text(found, name),
                source=_source(found, name),
                services=_told(found, services, name),
            )
            for name in sorted(KNOWN - NEVER)
        ]

    def put(self, name: str, text: str | None, *, here: bool) -> Path:
        """Write a setting into the file of the home, or of the folder (`here`); None removes it.

        Writing into a folder's file does not make it trusted: only a file that was trusted before,
        or that needed no trust, is trusted afterwards.

        Raises:
            InvalidInput: there is no such setting, the value does not fit or is a secret, or the
                file cannot be read, or not be edited by a program.
            NotAllowed: the file cannot be written.
        """
        key = name.lower().removeprefix("perdure_")
        if key not in KNOWN:
            hint = did_you_mean(key, KNOWN)
            raise InvalidInput(
                f"There is no setting {name!r}.{hint}", cure="`perdure config` lists them all."
            )
        # One that is a link, say into a repository of such files, stays one. In a folder it could
        # lead anywhere.
        path = self._folder / FILE if here else Path(os.path.realpath(self._home / FILE))
        value = None if text is None else _checked(key, text, folder=path.parent)
        # Before the file changes, since trust holds for exactly what is in it.
        before = self._trusts(path) if here else False
        old = read_text(path, most_bytes=MAX_BYTES) if path.is_file() else ""
        # What cannot be read cannot be edited either; a person is told where it is wrong.
        parse(old, named=f"The file {path}", cure="Correct that place in an editor.")
        new = edited(old, key, value)
        _require_meant(old, new, key, value, path=path)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The folder's file may be shared, for example in a repository; the home's is private.
            replace_file(path, new, mode=0o644 if here else 0o600)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise  # every command tells of a full disk in the same way
            raise NotAllowed(
                f"The file {path} cannot be written: {error.strerror or error}.",
                cure="Make its folder writable for this user, or edit it as its owner.",
            ) from error
        if before and (found := read_settings(path, KNOWN)) is not None:
            trust(self._home, found)
        return path

    def trust(self) -> Path | None:
        """Trust this folder's file; returns None if it sets nothing that needs trust."""
        found = read_settings(self._folder / FILE, KNOWN)
        if found is None or not found.guarded:
            return None
        trust(self._home, found)
        return found.path

    def _trusts(self, path: Path) -> bool:
        try:
            Settings.found({"home": self._home}, folder=self._folder)
        except InvalidInput:
            found = read_settings(path, KNOWN)
            return found is None or not found.guarded
        return True


def edited(text: str, name: str, value: object) -> str:
    """Set or (for None) remove one field of a file; all other lines and comments stay."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(node, yaml.ScalarNode) and yaml.safe_load(text) is None:  # such as `~`
        text, node = text[: node.start_mark.index] + text[node.end_mark.index :], None
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise InvalidInput("The file holds no fields.", cure="Write lines such as `workers: 2`.")
    if node is not None and node.flow_style:
        whole = {**yaml.safe_load(text), name: value}
        kept = {key: one for key, one in whole.items() if one is not None}
        return yaml.safe_dump(kept, allow_unicode=True, sort_keys=False) if kept else ""
    line = "" if value is None else _dumped(name, value)
    for key, inner in node.value if node is not None else ():
        if key.value == name:
            end = text.find("\n", _end(inner))
            rest = "" if end < 0 else text[end + 1 :]
            return text[: key.start_mark.index] + line + rest
    if not line:
        return text
    # Indented as the other fields, and before a mark that ends the document.
    line = " " * (node.start_mark.column if node is not None else 0) + line
    end = _end_mark(text)
    before, after = text[:end], text[end:]
    return before + ("" if not before or before.endswith("\n") else "\n") + line + after


def _require_meant(old: str, new: str, name: str, value: object, *, path: Path) -> None:
    """Refuse a change after which a file means anything but what it meant, and the new value.

    YAML has forms that no editing of lines fits, such as a value that another one repeats.
    """
    meant = {key: one for key, one in _fields(old).items() if key != name}
    if value is not None:
        meant |= _fields(_dumped(name, value))
    try:
        if _fields(new) == meant:
            return
    except InvalidInput:
        pass  # it could not even be read
    raise InvalidInput(
        f"The file {path} is written in a way that this command cannot change.",
        cure=f"Change `{name}` in an editor.",
    )


def _fields(text: str) -> dict[str, JsonValue]:
    loaded = parse(text, named=FILE)
    return loaded if isinstance(loaded, dict) else {}


def _end_mark(text: str) -> int:
    """Where the mark `...` begins that ends the document; the end of the text if it has none."""
    marks = (
        event.start_mark.index
        for event in yaml.parse(text, Loader=yaml.SafeLoader)
        if isinstance(event, yaml.DocumentEndEvent) and event.explicit and event.start_mark
    )
    return next(marks, len(text))


def _dumped(name: str, value: object) -> str:
    # Inside a list any value is written on one line, and without the `...` that ends a document.
    told = yaml.safe_dump([value], allow_unicode=True, default_flow_style=True, width=1_000_000)
    return f"{name}: {told.strip()[1:-1]}\n"


def _end(node: yaml.Node) -> int:
    """The position of a value's last character; PyYAML ends a block only after its comments."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end(node.value[-1])
    # A value of nothing ends where it begins.
    return max(node.end_mark.index - 1, node.start_mark.index)


def _checked(name: str, text: str, *, folder: Path) -> object:
    """The value that a text means, as it is written into a file."""
    if wrong := why_not_in_file(name, text):
        raise InvalidInput(f"The setting {wrong}.", cure="`perdure config` shows what is set.")
    loaded = _loaded(name, text) if text.strip() else None
    if loaded is None:
        raise InvalidInput(
            f"The setting {name} has no value.",
            cure="Give one, or remove the setting with `--unset`.",
        )
    value = SettingsFile(folder / FILE, {name: loaded})
    try:
        Settings(**{name: loaded})  # pyright: ignore[reportArgumentType]  (validated by pydantic)
    except ValueError:
        # Raises the error that every command would raise at its start.
        Settings.found({name: loaded}, files=False)
    return value.values[name]


def _loaded(name: str, text: str) -> object:
    """A text as a setting of this type takes it; only what is no text is read as YAML.

    Raises:
        InvalidInput: it cannot be read.
    """
    annotation = Settings.model_fields[name].annotation
    union = get_origin(annotation) in (Union, UnionType)
    kinds = {get_origin(one) or one for one in (get_args(annotation) if union else [annotation])}
    if kinds & {str, Path, SecretStr, Literal}:
        return text
    if tuple not in kinds:
        return parse(text, named=f"The setting {name}", cure="Correct it; quotes may be missing.")
    if not text.startswith("["):
        return [*names_in(text)]
    try:
        return [str(one) for one in json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The setting {name} cannot be read as a list: {error}.", cure=f"Give {LIST}."
        ) from None


def _text(settings: Settings, name: str) -> str:
    value: object = getattr(settings, name)
    match value:
        case None:
            return ""
        case SecretStr():
            return HIDDEN
        case tuple() if name == OLD_KEYS:
            # One may be the key itself, set by mistake.
            return ", ".join(one if is_reference(one) else HIDDEN for one in map(str, value))
        case tuple():
            return ", ".join(str(one) for one in value)
        case dict():
            return ", ".join(str(one) for one in value)
        case bool():
            return "true" if value else "false"
        case str() if "://" in value and ("@" in value or secrets_of_url(value)):
            return HIDDEN
        case _:
            return str(value)


def _source(settings: Settings, name: str) -> str:
    set_by = variables_of(name)
    path = settings.layers.source(name)
    if name == "plugins" and set_by and path is not None:
        return f"{path}, {set_by[0]}"
    if set_by:
        return set_by[0]
    return str(path) if path is not None else "default"


def _told(found: Settings, services: Settings, name: str) -> str:
    """The value in the home's file, which services use, if this shell's variable differs."""
    if name not in services.layers.of_home or not variables_of(name) or name == "plugins":
        return ""
    value: object = getattr(services, name)
    if value == getattr(found, name):
        return ""
    # A file holds no secret, only where it is.
    return value.get_secret_value() if isinstance(value, SecretStr) else _text(services, name)
