"""Reads the files that a specification refers to or contains, and keeps them as blobs.

Files are read only inside one folder. The content decides the kind of a file: an image or PDF
becomes an attachment, anything else is text.
"""

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from perdure.domain.foundation.problems import Problem, format_value
from perdure.domain.llm.attachments import (
    MOST_PDF_BYTES,
    Attachment,
    Measure,
    amount_problem,
    attachment_in,
    attachment_value,
    not_measured,
    read_attachment,
)
from perdure.domain.llm.file_signatures import SUPPORTED, media_type_of, named_as
from perdure.submission.layers import Fields, Layer

FILE = "file:"
SCRIPTED = "scripted:"
STORED = ("scripted:sha256:", "scripted:hmac:")
LABEL_CHARACTERS = 40
INLINE_BYTES = 8 * 1024
MAX_BYTES = 4 * 1024 * 1024
NAME_CHARACTERS = 120
INSIDE = "a file inside the folder of the task, without links and `..`"
NO_FILES = (
    "no files: this interface reads none; send the text itself, or the content of an image or PDF "
    "as {base64: …, name: …}"
)
_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


class References:
    """Resolves the references of layers; collects `blobs` and `problems`.

    Args:
        measure: counts the pixels and pages of images and PDFs among the inputs.
    """

    def __init__(self, measure: Measure = not_measured) -> None:
        self.blobs: dict[str, bytes] = {}
        self.problems: list[Problem] = []
        self._measure = measure

    def resolved(self, layer: Layer) -> Layer:
        """The layer with references replaced by addresses, texts and an absolute workspace."""
        fields = dict(layer.fields)
        context = fields.get("context")
        if isinstance(context, dict):
            fields["context"] = self._inputs(context, layer.folder)
        fields = self.with_scripts(fields, layer.folder)
        if isinstance(fields.get("workspace"), str):
            fields["workspace"] = self._workspace(str(fields["workspace"]), layer.folder)
        return Layer(name=layer.name, fields=fields, folder=layer.folder, defaults=layer.defaults)

    def with_scripts(self, fields: Fields, folder: Path | None) -> Fields:
        """The fields with scripts of models replaced by addresses; those that are one stay."""
        models = fields.get("models")
        if isinstance(models, dict):
            told: Fields = {
                name: self._model(value, f"models.{name}", folder) for name, value in models.items()
            }
            fields = {**fields, "models": told}
        return with_models_beside(fields, lambda value, path: self._model(value, path, folder))

    def _inputs(self, context: Fields, folder: Path | None) -> Fields:
        given: Fields = {
            name: self._input(value, f"context.{name}", folder) for name, value in context.items()
        }
        shown_files = [found for value in given.values() if (found := attachment_in(value))]
        if why := amount_problem(shown_files):
            self.problems.append(Problem(path="context", found="images and PDFs", why=why))
        return given

    def _input(self, value: JsonValue, path: str, folder: Path | None) -> JsonValue:
        if (name := _file_of(value)) is not None:
            # Only the content tells what it is, so as much is read as the largest kind may have.
            data = self._read(name, path, folder, limit=MOST_PDF_BYTES)
            return value if data is None else self._content(data, name, path)
        match value:
            case {"base64": str(encoded), **others} if not others.keys() - {"name"}:
                data = self._decoded(encoded, path)
                return value if data is None else self._content(data, others.get("name"), path)
            case _:
                return value

    def _content(self, data: bytes, name: JsonValue, path: str) -> JsonValue:
        """The value for a file: its text, or the address of a long one, or an attachment."""
        called = PurePosixPath(name).name[:NAME_CHARACTERS] if isinstance(name, str) else ""
        # By its name too: a damaged image is told as one, and not as text that is no UTF-8.
        if media_type_of(data) is not None or named_as(called) is not None:
            return self._attached(data, called, path)
        if len(data) > MAX_BYTES:
            self._problem(path, called, f"a text of at most {MAX_BYTES} bytes")
            return ""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            self._problem(path, called, f"UTF-8 text, {SUPPORTED}")
            return ""
        return text if len(data) <= INLINE_BYTES else {"ref": self._kept(data)}

    def _attached(self, data: bytes, name: str, path: str) -> JsonValue:
        found = read_attachment(data, name=name, ref=_address(data), measure=self._measure)
        if isinstance(found, Attachment):
            self._kept(data)
            return attachment_value(found)
        self.problems.append(Problem(path=path, found=name or "the file", why=found))
        return ""

    def _decoded(self, encoded: str, path: str) -> bytes | None:
        try:
            # The program `base64` writes line breaks, which are removed.
            return base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            self._problem(f"{path}.base64", encoded, f"base64 ({error})")
            return None

    def _model(self, value: JsonValue, path: str, folder: Path | None) -> JsonValue:
        if isinstance(value, list):
            return [
                self._model(item, f"{path}[{index}]", folder) for index, item in enumerate(value)
            ]
        # What is an address already was read before, here or where another run began.
        if not isinstance(value, str) or not value.startswith(SCRIPTED) or value.startswith(STORED):
            return value
        name, mark, label = value.removeprefix(SCRIPTED).partition("#")
        data = self._read(name, path, folder)
        # Without a label, the file's name tells people which script it is.
        named = label if mark else _LABEL.sub("-", PurePosixPath(name).stem)[:LABEL_CHARACTERS]
        return value if data is None else f"{SCRIPTED}{self._kept(data)}#{named}"

    def _workspace(self, given: str, folder: Path | None) -> str:
        if folder is None and not Path(given).is_absolute():
            self._problem("workspace", given, "an absolute path")
            return given
        # Links are not followed: the queue of a folder is derived from the path that people use.
        path = Path(os.path.normpath((folder or Path("/")) / given))
        if not os.path.isdir(path):  # of `os.path`, as it may be too long for a path
            self._problem("workspace", str(path), "a folder that exists")
        return str(path)

    def _read(
        self, name: str, path: str, folder: Path | None, *, limit: int = MAX_BYTES
    ) -> bytes | None:
        if folder is None:
            self._problem(path, name, NO_FILES)
            return None
        try:
            return read_beneath(folder, name, limit=limit)
        except FileNotFoundError:
            self._problem(path, name, f"a file that exists in {folder}")
        except IsADirectoryError:
            self._problem(path, name, f"a plain file of at most {limit} bytes")
        # A `ValueError` is of signs that no name of a file has, such as U+0000.
        except (OSError, ValueError):
            self._problem(path, name, INSIDE)
        return None

    def _kept(self, data: bytes) -> str:
        address = _address(data)
        self.blobs[address] = data
        return address

    def _problem(self, path: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(path=path, found=format_value(found), allowed=allowed))


def _address(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def read_beneath(folder: Path, name: str, *, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file below a folder, component by component, following no link.

    Raises:
        OSError: it does not exist, is outside the folder, a link, not regular, or too large.
    """
    parts = PurePosixPath(name.strip()).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise PermissionError(name)
    # The folder itself may be a link: a person named it, and not the task.
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # One by one, since O_NOFOLLOW looks at the last part of a path alone.
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # O_NONBLOCK: opening a pipe must not wait for a writer.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
    with os.fdopen(file, "rb") as opened:
        facts = os.fstat(opened.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            raise IsADirectoryError(name)
        # It may have grown since it was measured.
        return opened.read(limit)


def with_addresses(fields: Fields, moved: Callable[[str], str]) -> Fields:
    """The fields with every blob address replaced by the one that the store returned."""
    context, models = fields.get("context"), fields.get("models")
    changed = dict(fields)
    if isinstance(context, dict):
        changed["context"] = {name: _moved_input(value, moved) for name, value in context.items()}
    if isinstance(models, dict):
        changed["models"] = {name: _moved_model(value, moved) for name, value in models.items()}
    return with_models_beside(changed, lambda value, _: _moved_model(value, moved))


def with_models_beside(fields: Fields, change: Callable[[JsonValue, str], JsonValue]) -> Fields:
    """The fields with all models of strategies and judges changed.

    Args:
        fields: a specification as written.
        change: maps a value and its path to the new value.
    """
    return _with_judges(_with_strategies(fields, change), change)


def _with_judges(fields: Fields, change: Callable[[JsonValue, str], JsonValue]) -> Fields:
    rubric = fields.get("rubric")
    if not isinstance(rubric, list):
        return fields
    changed = list[JsonValue]()
    for index, item in enumerate(rubric):
        match item:
            case {"evaluator": {"judge": {"model": model, **others}}}:
                path = f"rubric[{index}].evaluator.judge.model"
                judge: JsonValue = {**others, "model": change(model, path)}
                changed.append({**item, "evaluator": {"judge": judge}})
            case _:
                changed.append(item)
    return {**fields, "rubric": changed}


def _with_strategies(fields: Fields, change: Callable[[JsonValue, str], JsonValue]) -> Fields:
    refine = fields.get("refine")
    strategies = refine.get("strategies") if isinstance(refine, dict) else None
    if not isinstance(refine, dict) or not isinstance(strategies, list):
        return fields
    changed: list[JsonValue] = [
        {**one, "model": change(one["model"], f"refine.strategies[{index}].model")}
        if isinstance(one, dict) and "model" in one
        else one
        for index, one in enumerate(strategies)
    ]
    return {**fields, "refine": {**refine, "strategies": changed}}


def _moved_input(value: JsonValue, moved: Callable[[str], str]) -> JsonValue:
    match value:
        # An input may be an object that has a `ref` of its own among its fields.
        case {"ref": str(address)} if len(value) == 1 or attachment_in(value) is not None:
            return {**value, "ref": moved(address)}
        case _:
            return value


def _moved_model(value: JsonValue, moved: Callable[[str], str]) -> JsonValue:
    match value:
        case str() if value.startswith(SCRIPTED):
            address, mark, label = value.removeprefix(SCRIPTED).partition("#")
            return f"{SCRIPTED}{moved(address)}{mark}{label}"
        case list():
            return [_moved_model(item, moved) for item in value]
        case _:
            return value


def _file_of(value: JsonValue) -> str | None:
    """The path of a `file: path`, written as a block or as a text; else None."""
    match value:
        case {"file": str(name)} if len(value) == 1:
            return name
        # A text of several lines may begin with that word.
        case str() if value.startswith(FILE) and "\n" not in value:
            return value.removeprefix(FILE).strip()
        case _:
            return None
