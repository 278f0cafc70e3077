"""One typed settings object, from the environment and the files `perdure.yaml`, which it overrides.

Variables start with `PERDURE_`. Those of model providers (`ANTHROPIC_*`, `OPENAI_*`,
`AZURE_OPENAI_*`) and `TEMPORAL_*` keep their standard names. The latter include profiles, TLS and
API keys, read as Temporal's own tools read them.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

from pydantic import PrivateAttr, SecretStr, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsError
from temporalio.envconfig import ClientConfigProfile

from perdure.adapters.logging.redacting import keep_secret, secrets_of_url
from perdure.adapters.settings.fields import DEFAULT_HOME, LIST, PREFIX, SettingFields
from perdure.adapters.settings.files import HOUSES, REFERENCES, SECRETS
from perdure.adapters.settings.layers import Layers, layers, names_in, variables_of
from perdure.adapters.settings.secret_references import is_reference, secret_value, sendable
from perdure.adapters.settings.working_folder import expanded
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import allowed_in_words, format_value, path_of
from perdure.domain.foundation.redaction import names_a_secret
from perdure.domain.installation.open_limits import OpenLimits
from perdure.domain.ports import Endpoints

EMBEDDED_GRACE_S = 10.0
# What an entry of `providers` has about its key.
KEYS = frozenset({"key", "key_variable"})


class Settings(SettingFields):
    """All settings of an installation. Build it with `Settings.load()`."""

    reads_variables: ClassVar[bool] = True
    _temporal: ClientConfigProfile = PrivateAttr(default_factory=ClientConfigProfile)
    _layers: Layers = PrivateAttr(default_factory=partial(Layers, home=None))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Where pydantic finds values: what it is given, and variables."""
        return (init_settings, env_settings) if cls.reads_variables else (init_settings,)

    @classmethod
    def load(cls, **overrides: object) -> Self:
        """Read the environment, the home's file and the Temporal profile; `overrides` win."""
        return cls.found(overrides)

    @classmethod
    def found(
        cls,
        overrides: Mapping[str, object] = MappingProxyType({}),
        *,
        folder: Path | None = None,
        files: bool = True,
    ) -> Self:
        """Settings as `load` reads them.

        Args:
            overrides: fields by name, which win; plugins add up.
            folder: a working folder whose `perdure.yaml` is read too; services have none.
            files: whether to read any file.

        Raises:
            InvalidInput: values are wrong; the message names all of them.
        """
        known = frozenset(cls.model_fields)
        found = layers(_home(overrides), folder, known) if files else Layers(home=None)
        values = found.values
        # pydantic takes arguments before variables, so files give only what no variable sets.
        below = {name: value for name, value in values.items() if not cls._set_outside(name)}
        plugins = (
            *names_in(values.get("plugins")),
            *_listed(os.environ.get(f"{PREFIX}PLUGINS") if cls.reads_variables else None),
            *_listed(overrides.get("plugins")),
        )
        given = below | dict(overrides) | ({"plugins": plugins} if plugins else {})
        try:
            settings = cls(**given)  # pyright: ignore[reportArgumentType]  (validated by pydantic)
        # `from None` below: the library's error repeats values, and one may be a secret.
        except ValidationError as error:
            raise InvalidInput(
                _explain(error, found, overrides, set_outside=cls._set_outside),
                cure="Correct or unset these settings.",
            ) from None
        except SettingsError as error:
            raise InvalidInput(
                f"Wrong settings: {_unreadable(error)}", cure="Correct or unset this setting."
            ) from None
        settings._layers = found
        try:
            if cls.reads_variables:
                settings._temporal = ClientConfigProfile.load(override_env_vars=_texts())
        except (RuntimeError, ValueError) as error:
            raise InvalidInput(
                f"The Temporal profile cannot be read: {error}",
                cure="Check TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE and the file they name.",
            ) from None
        keep_secret(settings._secrets())
        return settings

    @classmethod
    def _set_outside(cls, name: str) -> bool:
        """Whether a variable sets a setting; of those that read none, none does."""
        return cls.reads_variables and bool(variables_of(name))

    @property
    def layers(self) -> Layers:
        """The files that these settings were read from."""
        return self._layers

    def _secrets(self) -> Iterator[str]:
        """The secrets in these settings and in the environment, for the redactor."""
        values = (getattr(self, name) for name in type(self).model_fields)
        # References are not secret; but a setting for a reference may hold the key by mistake.
        given = (value.get_secret_value() for value in values if isinstance(value, SecretStr))
        held = (*given, *self.encryption_old_keys)
        yield from (text for text in held if not is_reference(text))
        urls = (
            self.database_url,
            self.anthropic_base_url,
            self.openai_base_url,
            self.azure_openai_endpoint,
            self.model_url,
            *(server.url for server in self.providers.values()),
        )
        for url in urls:
            yield from secrets_of_url(url or "")
        for server in self.providers.values():
            if key := os.environ.get(server.key_variable or ""):
                yield key
        if isinstance(key := self._temporal.api_key, str) and not is_reference(key):
            yield key
        # Also of variables that are not ours. A path names a file with the secret; but keys may
        # begin with "/" too (base64), so the file must be there.
        for name, value in os.environ.items():
            is_path = value.startswith("/") and os.path.exists(value)
            if names_a_secret(name) and not (is_reference(value) or is_path):
                yield value

    @property
    def temporal(self) -> ClientConfigProfile:
        """The Temporal server of the profile; without `address` the embedded one is used.

        Raises:
            InvalidInput: its key is a reference that cannot be followed.
        """
        if (key := self.temporal_key_reference) is None:
            return self._temporal
        return replace(self._temporal, api_key=secret_value("TEMPORAL_API_KEY", key))

    @property
    def temporal_key_reference(self) -> str | None:
        """The reference in the place of the key of the Temporal server; None if there is none."""
        key = self._temporal.api_key
        return key if isinstance(key, str) and is_reference(key) else None

    def secret(self, name: str) -> str | None:
        """The secret that a setting holds or refers to, without a line end; None if it is not set.

        Raises:
            InvalidInput: its reference cannot be followed.
        """
        value = getattr(self, name)
        if value is None:
            return None
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        # Line ends alone, as where it is a reference: a file that was read into a variable has one.
        return secret_value(_variable((name,)), text).strip("\r\n")

    def key(self, name: str) -> str | None:
        """The secret of a setting that goes into a header.

        Raises:
            InvalidInput: its reference cannot be followed, or no header can carry it.
        """
        secret = self.secret(name)
        return None if secret is None else sendable(_variable((name,)), secret)

    @property
    def namespace(self) -> str:
        return self._temporal.namespace or "default"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the stores; raises as `secret`."""
        return self.secret("database_url") or f"sqlite+aiosqlite:///{self.home / 'perdure.sqlite'}"

    @property
    def shares_a_database(self) -> bool:
        """Whether the rows are on a database server, which may be away, and not in a file."""
        return not self.store_url.startswith("sqlite")

    @property
    def tells_people(self) -> bool:
        """Whether the settings name a channel to notify people."""
        return bool(self.notify_webhook or self.notify_command)

    @property
    def open_limits(self) -> OpenLimits:
        """How many runs may be open at once."""
        return OpenLimits(
            runs=self.max_open_runs,
            per_tenant=self.max_open_runs_per_tenant,
            above=self.above_max_open_runs,
        )

    @property
    def idle(self) -> timedelta | None:
        """After how long without an open run the embedded services end; None: never."""
        return timedelta(minutes=self.idle_minutes) if self.idle_minutes else None

    @property
    def embedded_grace_s(self) -> float:
        """The grace period of embedded workers: short, because a person waits for them to end."""
        named = "shutdown_grace_s" in self.model_fields_set
        return self.shutdown_grace_s if named else min(EMBEDDED_GRACE_S, self.shutdown_grace_s)

    def at(self, endpoints: Endpoints) -> Self:
        """These settings with the addresses of the services of this home."""
        found = self.model_copy(update={"model_url": self.model_url or endpoints.model_url})
        address = self._temporal.address or endpoints.temporal_address
        found._temporal = replace(self._temporal, address=address)
        return found

    def as_environment(self) -> dict[str, str]:
        """The explicitly set fields as variables, for a child process with the same settings.

        Settings of the home's file are left out: each process reads that file itself.
        """
        of_home = self._layers.of_home
        told = {
            _variable((name,)): _as_text(getattr(self, name))
            for name in sorted(self.model_fields_set - of_home)
            if getattr(self, name) is not None
        }
        if "plugins" in of_home:
            known = names_in(Layers(home=self._layers.home).values.get("plugins"))
            if more := tuple(name for name in self.plugins if name not in known):
                told[f"{PREFIX}PLUGINS"] = _as_text(more)
        return told

    def for_services(self) -> dict[str, str]:
        """The environment of embedded services, in which no variable overrides the home's file.

        Otherwise two shells with different variables would restart the services in turn.
        """
        of_home = self._layers.of_home
        own = {variable for name in of_home for variable in variables_of(name)}
        inherited = {name: value for name, value in os.environ.items() if name not in own}
        return inherited | self.as_environment()


class GivenSettings(Settings):
    """Settings that no variable and no Temporal profile sets."""

    reads_variables = False


def variable(name: str) -> str | None:
    """The value of an environment variable that a file of the operator names, or None."""
    return os.environ.get(name)


def inherited_environment(*, minimal: bool = False) -> dict[str, str]:
    """This process's environment for a child process.

    `minimal` keeps only basic variables, for services that need no secrets.
    """
    if not minimal:
        return dict(os.environ)
    basics = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT")
    return {name: os.environ[name] for name in basics if name in os.environ}


def search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def unknown_variables() -> list[str]:
    """Variables that start with `PERDURE_` and are no setting: probably typing errors."""
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def _texts() -> dict[str, str]:
    """The variables that are texts: the reader of Temporal's profile panics over any other.

    Raises:
        ValueError: one of Temporal's is none.
    """
    whole = {name: name + text for name, text in os.environ.items()}
    odd = {name for name, text in whole.items() if text.encode(errors="ignore").decode() != text}
    for name in odd:
        if name.startswith("TEMPORAL_"):
            raise ValueError(f"the variable {name} holds other bytes than UTF-8 text")
    return {name: text for name, text in os.environ.items() if name not in odd}


def _as_text(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case tuple():
            return json.dumps(value)
        case dict():
            return TypeAdapter(dict[str, object]).dump_json(value, exclude_unset=True).decode()
        case _:
            return str(value)


def _home(overrides: Mapping[str, object]) -> Path:
    """The home folder; no file can set it, because its own file is read first."""
    named = overrides.get("home") or os.environ.get(f"{PREFIX}HOME") or DEFAULT_HOME
    return expanded(str(named)).absolute()


def _listed(value: object) -> Sequence[str]:
    """The names in a list from a variable or a caller: JSON, or words with commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return names_in(json.loads(value))
        except ValueError:
            raise InvalidInput(
                f"Wrong settings: {PREFIX}PLUGINS: found {format_value(value)}; allowed: {LIST}.",
                cure="Correct or unset it.",
            ) from None
    return names_in(value)


def _explain(
    error: ValidationError,
    found: Layers,
    overrides: Mapping[str, object],
    *,
    set_outside: Callable[[str], bool],
) -> str:
    lines: list[str] = []
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]).lower().removeprefix(PREFIX.lower()) if detail["loc"] else "?"
        path = None if name in overrides or set_outside(name) else found.source(name)
        lines.append(_told(detail, name, path))
    return "Wrong settings: " + "; ".join(lines) + "."


def _told(detail: ErrorDetails, name: str, path: Path | None) -> str:
    """One problem, with the file that has it, or else the variable."""
    place = _variable(detail["loc"]) if path is None else f"{name} in {path}"
    # The last of it stands for the name in a mapping that is itself wrong.
    inner = [step for step in detail["loc"][1:] if step != "[key]"]
    if inner:
        place += f": {path_of('', inner)}"
    if detail["type"] == "extra_forbidden":
        return f"{place}: there is no such {'field' if inner else 'setting'}"
    if detail["type"] == "missing":
        return f"{place}: found nothing; allowed: {allowed_in_words(detail)}"
    value = "what is not shown" if _may_be_secret(detail, name) else format_value(detail["input"])
    return f"{place}: found {value}; allowed: {allowed_in_words(detail)}"


def _may_be_secret(detail: ErrorDetails, name: str) -> bool:
    """Whether the wrong value may hold a secret, such as a key in the place of its reference."""
    # What is wrong with an entry as a whole is told of all of it, with the key.
    of_server = KEYS.intersection(detail["loc"]) or isinstance(detail["input"], Mapping)
    return name in SECRETS | REFERENCES or (name == "providers" and bool(of_server))


def _unreadable(error: SettingsError) -> str:
    """The setting that must be JSON and is not, which the library names in quotation marks."""
    named = re.search(r'field "(\w+)"', str(error))
    return f"{_variable((named[1] if named else '?',))}: allowed: a JSON object."


def _variable(path: tuple[int | str, ...]) -> str:
    name = str(path[0]).upper() if path else "?"
    return (
        name
        if name.startswith((PREFIX, *(house.upper() for house in HOUSES)))
        else f"{PREFIX}{name}"
    )
