"""Which models an installation can call, and which one serves runs that name none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from perdure.adapters.llm.embedded_facts import LOCAL_NAME, embedded_available
from perdure.adapters.llm.retirement import NEWEST, current, retirement_notes
from perdure.adapters.plugin_modules import installed_plugins
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now

PLUGIN_GROUP = "perdure.models"


DEFAULT_CLAUDE = NEWEST["sonnet"]


NO_KEY = (
    "the workers have no key. Set ANTHROPIC_API_KEY where they start, and start them again "
    "(`perdure down`, then `perdure up --detach`)"
)


NOT_STARTED = (
    "the embedded model is installed, but the workers were started without it. "
    "Start them again: `perdure down`, then `perdure up --detach`"
)


INSTALL = "(or `make setup`) and start the services again, or set ANTHROPIC_API_KEY to use Claude"


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """Where models answer and with which credentials; handed in, never read from here."""

    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    base_url: str | None = None
    local_url: str | None = None
    default: str | None = None


def access_from(settings: Settings) -> ModelAccess:
    """The part of the settings that concerns models."""
    key, token = settings.anthropic_api_key, settings.anthropic_auth_token
    return ModelAccess(
        api_key=key.get_secret_value() if key else None,
        auth_token=token.get_secret_value() if token else None,
        base_url=settings.anthropic_base_url,
        local_url=settings.model_url,
        default=settings.model,
    )


def default_model(access: ModelAccess, *, today: date | None = None) -> str:
    """What a run without a model uses: the setting, Claude where there is a key, else `local`.

    From the day on which the provider ends that Claude model, it is its successor.
    """
    if access.default:
        return access.default
    if not (access.api_key or access.auth_token):
        return LOCAL_NAME
    return current(DEFAULT_CLAUDE, today=today or utc_now().date())


def model_notes(models: Sequence[str]) -> tuple[str, ...]:
    """What people should know today of the models that they name."""
    return retirement_notes(models, today=utc_now().date())


def lacking_models(access: ModelAccess) -> dict[str, str]:
    """The families that cannot be called with this access, with why and what to do."""
    found: dict[str, str] = {}
    if not (access.api_key or access.auth_token or access.base_url):
        found["claude"] = NO_KEY
    if access.local_url is None:
        available = embedded_available()
        found["local"] = NOT_STARTED if available.ok else f"{available.reason} {INSTALL}"
    return found


def plugin_names() -> frozenset[str]:
    """The names of installed model plugins, without loading any."""
    return frozenset(point.name for point in installed_plugins(group=PLUGIN_GROUP))
