"""Models, roles and definitions that `PerdurePlugin` is given, read and checked."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from perdure.adapters.definitions.folder import role_file, stored
from perdure.adapters.llm.scripted import PREFIX as SCRIPTED
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import LOCAL_MODELS, PROVIDERS
from perdure.domain.ports import ModelClient
from perdure.domain.roles.definition_library import RoleFile, StoredDefinition, refusal
from perdure.extending.check_decorator import CustomCheck
from perdure.interfaces.python_arguments import wrong
from perdure.strict_yaml import parse
from perdure.text_files import read_text

Named = TypeVar("Named", CustomCheck, StoredDefinition)

MODEL_NAME = re.compile(r"[a-z][a-z0-9_-]*")
TAKEN = PROVIDERS | LOCAL_MODELS | {SCRIPTED.rstrip(":")}


def by_name(given: Iterable[Named], *, noun: str) -> dict[str, Named]:
    """Checks or definitions by name; of two with one name, one would be lost without a word."""
    found: dict[str, Named] = {}
    for one in given:
        if found.setdefault(one.name, one) != one:
            raise InvalidInput(
                f"Two {noun} are named {one.name}.", cure="Rename or remove one of them."
            )
    return found


def queue_names(given: object) -> tuple[str, ...]:
    """The queues; a text is refused, whose letters would be polled as queues each."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        names = tuple(given)
        well = all(isinstance(name, str) and name.strip() for name in names)
        if well and len(set(names)) == len(names):
            return names
    raise wrong("queues", given, 'a list of names of task queues, each once, such as ["loops"]')


def require_model_names(models: Mapping[str, ModelClient]) -> Mapping[str, ModelClient]:
    """The models, each with a name that no provider has."""
    for name in models:
        if name in TAKEN or not MODEL_NAME.fullmatch(name):
            raise InvalidInput(
                f"A model of your own cannot be called {name!r}.",
                cure="Use a lower-case word that is no provider's, such as `acme`.",
            )
    return models


def given_role(name: str, given: str | Path) -> RoleFile:
    """A role from its Markdown, or from the file that holds it."""
    text = read_text(given) if isinstance(given, Path) else given
    return role_file(text, name=name)


def given_definition(given: Path | Mapping[str, JsonValue]) -> StoredDefinition:
    """A definition from its fields, or from the file that holds them."""
    if isinstance(given, Path):
        what, fields = str(given), parse(read_text(given), named=str(given))
    else:
        what, fields = f"{given.get('name')}", dict(given)
    # Marked as built-in, so that nobody can change it from outside.
    read = stored(fields, origin="built-in")
    if isinstance(read, tuple):
        raise refusal(read, what=f"The definition {what}")
    return read
