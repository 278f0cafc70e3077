"""`perdure.yaml`: settings in the home folder and in the working folder, next to defaults of tasks.

The file in the home folder belongs to the person who set up the installation. The file in a working
folder may come with a repository, or from a model. So settings there that run programs, open hosts
or move keys are used only after a person has trusted them (`perdure config --trust`), and must be
trusted again after each change.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perdure.adapters.logging.redacting import secrets_of_url
from perdure.adapters.settings.secret_references import WAYS, is_reference
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import nearest_name
from perdure.strict_yaml import parse
from perdure.text_files import read_text

FILE = "perdure.yaml"
TRUSTED = "trusted.json"
MAX_BYTES = 1024 * 1024
# What a folder may set without trust: verbosity, and which of the known models is used.
# A list of what is allowed, so that a new setting needs trust until somebody thinks about it.
HARMLESS = frozenset({"model", "log_level", "log_format", "idle_minutes", "inline_output_bytes"})
# Set by the supervisor for its services.
NEVER = frozenset({"ready_file", "model_url"})
REFERENCES = frozenset({"encryption_key", "notify_secret", "codec_token", "oidc_client_secret"})
OLD_KEYS = "encryption_old_keys"
SECRETS = frozenset(
    {
        "anthropic_api_key",
        "anthropic_auth_token",
        "azure_openai_api_key",
        "notify_webhook",
        "openai_api_key",
    }
)
# Settings with these prefixes are also set by their standard variables, without our prefix.
HOUSES = ("anthropic_", "azure_openai_", "openai_")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings in one file, without its defaults of tasks."""

    path: Path
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def guarded(self) -> dict[str, object]:
        """The settings that are used in a working folder only if it is trusted."""
        return {name: value for name, value in self.values.items() if name not in HARMLESS}


def read_settings(path: Path, known: frozenset[str]) -> SettingsFile | None:
    """The settings of a file; None if there is no file.

    Raises:
        InvalidInput: it cannot be read, has unknown keys, or holds a secret.
    """
    data = _loaded(path)
    if data is None:
        return None
    wrong = _unknown(data, known)
    values = {name: value for name, value in data.items() if name in known}
    wrong += [told for name, value in values.items() if (told := why_not_in_file(name, value))]
    if wrong:
        raise InvalidInput(
            f"The file {path} has wrong settings: {'; '.join(wrong)}.",
            cure="Correct it; `perdure config` lists all settings.",
        )
    return SettingsFile(path, values)


def why_not_in_file(name: str, value: object) -> str:
    """Why a setting must not be in a file; empty if it may."""
    variable = f"PERDURE_{name.upper()}"
    if name == "home":
        return f"{name}: no file names it, for the home has such a file itself; set {variable}"
    if name in NEVER:
        return f"{name}: the services set it by themselves"
    if name in SECRETS and not is_reference(str(value)):
        return f"{name}: secrets are not written into files; export {variable}, or name {WAYS}"
    if name in REFERENCES and not is_reference(str(value)):
        return f"{name}: a file holds no secret, only where it is: {WAYS}"
    if name == "providers" and _addresses_with_keys(value):
        return f"{name}: an address holds no key; say where it is as key_variable or key"
    if name == OLD_KEYS and not all(map(is_reference, _listed(value))):
        return f"{name}: a file holds no secret, only where each is: {WAYS}"
    has_password = ":" in str(value).partition("://")[2].rpartition("@")[0]
    if name == "database_url" and (has_password or secrets_of_url(str(value))):
        return f"{name}: it holds a password; export {variable}, or name {WAYS}"
    return ""


def is_trusted(home: Path, found: SettingsFile) -> bool:
    """Whether a person trusted exactly these settings of this folder."""
    return _book(home).get(str(found.path)) == _digest(found)


def trust(home: Path, found: SettingsFile) -> None:
    """Record that a person trusts the settings of a working folder, until they change."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    book = {**_book(home), str(found.path): _digest(found)}
    replace_file(home / TRUSTED, json.dumps(book, indent=2, sort_keys=True) + "\n")


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file aside and rename it, so that no reader sees half of it."""
    # Of this process alone: two that write at once must not share a draft.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    # In UTF-8, as it is read: a locale may have another encoding.
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _loaded(path: Path) -> dict[str, object] | None:
    if not path.exists() or path.is_dir():
        return None
    loaded = parse(read_text(path, most_bytes=MAX_BYTES), named=f"The file {path}")
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InvalidInput(
            f"The file {path} holds no fields.", cure="Write lines such as `model: claude-…`."
        )
    return {**loaded}


def _unknown(data: Mapping[str, object], known: frozenset[str]) -> list[str]:
    """The problems of names that are neither settings nor fields of a task."""
    if data.keys() <= known:
        return []
    # Imported only if needed: every command reads these files, and most hold only settings.
    from perdure.domain.specs import task_fields

    allowed = known | task_fields()
    found: list[str] = []
    for name in (name for name in data if name not in allowed):
        near = nearest_name(name, allowed)
        hint = f"; did you mean {near}?" if near else ""
        found.append(f"{name}: neither a setting nor a field of a task{hint}")
    return found


def _listed(value: object) -> list[str]:
    """The texts of a list, or of words with commas between them, also in brackets."""
    parts = value if isinstance(value, list) else str(value).strip(" []").split(",")
    return [bare for part in parts if (bare := str(part).strip(" \"'"))]


def _addresses_with_keys(value: object) -> bool:
    servers = value.values() if isinstance(value, Mapping) else ()
    addresses = [one.get("url", "") if isinstance(one, Mapping) else one for one in servers]
    return any("@" in str(address) for address in addresses or [value])


def _book(home: Path) -> dict[str, str]:
    try:
        read: object = json.loads((home / TRUSTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a book that cannot be read trusts nothing
        return {}
    return {str(k): str(v) for k, v in read.items()} if isinstance(read, dict) else {}


def _digest(found: SettingsFile) -> str:
    # Not the whole file: what needs no trust may change without being trusted again.
    text = json.dumps(found.guarded, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
