"""Which models an installation can call, which one is the default, and when models retire.

The price list has no retirement dates, and the SDK has few of them and takes a second to import. So
they are a table here, which a test compares with the SDK's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from perdure.adapters.llm.clouds import CLOUDS, lacking_variables
from perdure.adapters.llm.clouds import VARIABLES as CLOUD_VARIABLES
from perdure.adapters.llm.embedded_facts import LOCAL_NAME, embedded_available
from perdure.adapters.llm.model_names import lacking_package
from perdure.adapters.plugin_modules import installed_plugins
from perdure.adapters.settings.providers import CompatibleServer
from perdure.adapters.settings.secret_references import resolve_reference, sendable
from perdure.adapters.settings.variables import Settings, variable
from perdure.adapters.stores.clock import utc_now
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import COMPATIBLE

# The newest of each family: the default, and the successor of a retired model. A test compares them
# with the SDK's list.
NEWEST = {"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}
DEFAULT_CLAUDE = NEWEST["sonnet"]
PLUGIN_GROUP = "perdure.models"
AGAIN = "`perdure down`, then `perdure up --detach`; a worker of your own by its own command"
NO_KEY = (
    "the workers have no key. Set ANTHROPIC_API_KEY in the environment of the process that runs "
    f"them, and start it again ({AGAIN})"
)
NOT_STARTED = (
    "the embedded model is installed, but the workers were started without it. "
    "Start them again: `perdure down`, then `perdure up --detach`"
)
RESTART = f"Do so where the process of the workers starts, and start it again ({AGAIN})."
INSTALL = "(or `make setup`) and start the services again, or set ANTHROPIC_API_KEY to use Claude"
TOLD_BEFORE = timedelta(days=90)
# The day from which on the provider refuses a model.
RETIREMENT_DATES = {
    "claude-1.3": date(2024, 11, 6),
    "claude-1.3-100k": date(2024, 11, 6),
    "claude-instant-1.1": date(2024, 11, 6),
    "claude-instant-1.1-100k": date(2024, 11, 6),
    "claude-instant-1.2": date(2024, 11, 6),
    "claude-2.0": date(2025, 7, 21),
    "claude-2.1": date(2025, 7, 21),
    "claude-3-sonnet-20240229": date(2025, 7, 21),
    "claude-3-opus-20240229": date(2026, 1, 5),
    "claude-3-5-haiku-latest": date(2026, 2, 19),
    "claude-3-5-haiku-20241022": date(2026, 2, 19),
    "claude-3-7-sonnet-latest": date(2026, 2, 19),
    "claude-3-7-sonnet-20250219": date(2026, 2, 19),
    "claude-opus-4-0": date(2026, 6, 15),
    "claude-opus-4-20250514": date(2026, 6, 15),
    "claude-sonnet-4-0": date(2026, 6, 15),
    "claude-sonnet-4-20250514": date(2026, 6, 15),
    "claude-mythos-preview": date(2026, 6, 30),
    "claude-sonnet-4-5": date(2026, 11, 30),
    "claude-sonnet-4-5-20250929": date(2026, 11, 30),
}


def successor_of(model: str) -> str:
    """The current model of the same family, or Sonnet if the family is gone."""
    return next((new for family, new in NEWEST.items() if family in model), NEWEST["sonnet"])


def current(model: str, *, today: date) -> str:
    """The model, or its successor from the day on which the provider retires it."""
    ends = RETIREMENT_DATES.get(model)
    return model if ends is None or today < ends else successor_of(model)


def retirement_notes(models: Iterable[str], *, today: date) -> tuple[str, ...]:
    """One sentence for each model that ends soon or has ended."""
    told: list[str] = []
    for model in dict.fromkeys(models):
        ends = RETIREMENT_DATES.get(model)
        if ends is None or ends - today > TOLD_BEFORE:
            continue
        left = (ends - today).days
        when = f"ends in {left} days, on {ends}" if left > 0 else f"has ended on {ends}"
        told.append(
            f"The model {model} {when}; its provider does not serve it from then on. "
            f"Name {successor_of(model)} instead (--model, `models:` of the task, PERDURE_MODEL)."
        )
    return tuple(told)


@dataclass(frozen=True, slots=True)
class KeyedAddress:
    """Where a provider answers, and with which key."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The addresses and credentials of models, as the settings have them."""

    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    base_url: str | None = None
    local_url: str | None = None
    default: str | None = None
    openai: "KeyedAddress" = field(default_factory=lambda: KeyedAddress())
    azure: "KeyedAddress" = field(default_factory=lambda: KeyedAddress())
    servers: Mapping[str, CompatibleServer] = field(default_factory=dict[str, CompatibleServer])
    server_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    lacking_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    cloud_variables: frozenset[str] = frozenset()


def access_from(settings: Settings) -> ModelAccess:
    """The part of the settings that concerns models.

    A server of `PERDURE_PROVIDERS` whose key cannot be read has none; the others are unaffected.

    Raises:
        InvalidInput: the key of a built-in provider is a reference that cannot be followed, or no
            key.
    """
    keys, lacking = _server_keys(settings.providers)
    return ModelAccess(
        api_key=settings.key("anthropic_api_key"),
        auth_token=settings.key("anthropic_auth_token"),
        base_url=settings.anthropic_base_url,
        local_url=settings.model_url,
        default=settings.model,
        openai=KeyedAddress(settings.openai_base_url, settings.key("openai_api_key")),
        azure=KeyedAddress(settings.azure_openai_endpoint, settings.key("azure_openai_api_key")),
        servers=settings.providers,
        server_keys=keys,
        lacking_keys=lacking,
        cloud_variables=frozenset(name for name in CLOUD_VARIABLES if variable(name)),
    )


def _server_keys(servers: Mapping[str, CompatibleServer]) -> tuple[dict[str, str], dict[str, str]]:
    """The keys by server, and for each key that could not be read the reason."""
    keys: dict[str, str] = {}
    lacking: dict[str, str] = {}
    for name, server in servers.items():
        if server.key_reference is None:
            continue
        setting = f"The key of the provider {name!r}"
        try:
            secret = resolve_reference(setting, server.key_reference)
        except InvalidInput as error:
            # Where it is empty, `lacking_key` names the variable to set.
            lacking[name] = "" if server.key_variable else error.message
            continue
        try:
            keys[name] = sendable(server.key_variable or setting, secret)
        except InvalidInput as error:
            lacking[name] = str(error)
    return keys, lacking


def default_model(access: ModelAccess, *, today: date | None = None) -> str:
    """The model of a run that names none: the setting, Claude if there is a key, else `local`.

    Once the provider has retired that Claude model, it is the successor.
    """
    has_key = bool(access.api_key or access.auth_token)
    return _default(access.default, has_key=has_key, today=today)


def default_model_of(settings: Settings) -> str:
    """The same without following references to secrets: a reference counts as a key."""
    has_key = bool(settings.anthropic_api_key or settings.anthropic_auth_token)
    return _default(settings.model, has_key=has_key)


def _default(named: str | None, *, has_key: bool, today: date | None = None) -> str:
    # A model that somebody named stays, even a retired one: `retirement_notes` warns of it.
    if named:
        return named
    return current(DEFAULT_CLAUDE, today=today or utc_now().date()) if has_key else LOCAL_NAME


def model_notes(models: Sequence[str]) -> tuple[str, ...]:
    """Warnings about models that retire soon, or have retired."""
    return retirement_notes(models, today=utc_now().date())


def lacking_models(access: ModelAccess) -> dict[str, str]:
    """The families that cannot be called with this access, each with the reason and what to do."""
    found: dict[str, str] = {}
    if not (access.api_key or access.auth_token or access.base_url):
        found["claude"] = NO_KEY
    if access.local_url is None:
        available = embedded_available()
        found["local"] = NOT_STARTED if available.ok else f"{available.reason} {INSTALL}"
    for family in families(access):
        if why := lacking_package(family) or lacking_key(access, family):
            found[family] = f"{why} {RESTART}"
    return found


def families(access: ModelAccess) -> list[str]:
    """The provider prefixes that a model's name can have here, besides `anthropic`."""
    return ["openai", "azure", *CLOUDS, *(f"{COMPATIBLE}:{name}" for name in access.servers)]


def lacking_key(access: ModelAccess, family: str) -> str:
    """What must be set before a provider can be called; empty if nothing is missing."""
    match family:
        case "openai":
            return "" if access.openai.key else "Set OPENAI_API_KEY."
        case "azure":
            lacking = [
                name
                for name, value in (
                    ("AZURE_OPENAI_ENDPOINT", access.azure.url),
                    ("AZURE_OPENAI_API_KEY", access.azure.key),
                )
                if not value
            ]
            return f"Set {' and '.join(lacking)}." if lacking else ""
        case "bedrock" | "vertex" | "foundry":
            return lacking_variables(CLOUDS[family], access.cloud_variables)
        case _:
            name = family.partition(":")[2]
            entry = access.servers[name]
            if entry.key_reference is None or name in access.server_keys:
                return ""
            return access.lacking_keys.get(name) or f"Set {entry.key_variable}."


def plugin_names() -> frozenset[str]:
    """The names of installed model plugins, without loading any."""
    return frozenset(point.name for point in installed_plugins(group=PLUGIN_GROUP))
