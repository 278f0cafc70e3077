"""Every setting of an installation: name, type, default, and what it means.

`docs/settings.md` is generated from this module (`make reference`): the text below a field is its
row there, and a one-line comment above a group of fields is a heading.
"""

import json
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from perdure.adapters.settings.addresses import HIGHEST_PORT, Url
from perdure.adapters.settings.layers import names_in, plugin_place
from perdure.adapters.settings.providers import CallRate, CompatibleServer, ModelPattern, ServerName
from perdure.adapters.settings.working_folder import expanded, working_folder
from perdure.domain.foundation.names import TASK_QUEUE
from perdure.domain.foundation.retry_policies import (
    FAILOVER_AFTER_S,
    FAILOVER_ATTEMPTS,
    PROVIDER_ATTEMPTS,
)
from perdure.domain.installation.access import Scope
from perdure.domain.installation.blob_place import BlobPlace
from perdure.domain.installation.hosts import host_of_origin
from perdure.domain.installation.open_limits import Above

DEFAULT_HOME = Path("~/.perdure")
PREFIX = "PERDURE_"
SHORTEST_JOURNAL_DAYS = 7
# A month. Python, Temporal and systemd each have a longest time above which they raise an error.
LONGEST_S = 30 * 24 * 3600
LIST = "words with commas between them, or a JSON list"
Names = Annotated[tuple[str, ...], NoDecode]


def _standard(name: str) -> AliasChoices:
    """A field that its well-known variable without our prefix sets too."""
    return AliasChoices(name, f"{PREFIX}{name}".upper(), name.upper())


class SettingFields(BaseSettings):
    """The fields alone; `Settings` reads them from files and the environment."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        allow_inf_nan=False,
    )

    # General
    home: Path = DEFAULT_HOME
    """Folder of the databases, blobs, working copies, logs and state."""
    database_url: str | None = None
    """SQLAlchemy URL of the stores, or a [reference](security.md#secrets) to one. Unset: an SQLite
    file in the home folder."""
    blobs: str | None = None
    """Object store for [blobs](backup.md#blobs-in-an-object-store): `s3://BUCKET/PREFIX`,
    `gs://…`, `az://…` or `file:///FOLDER`. Unset: files in the home folder beside SQLite, rows in
    PostgreSQL."""
    task_queue: str = Field(TASK_QUEUE, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$")
    """Task queue on which any Temporal client starts a loop with its task as input. Installations
    that share a namespace need different ones."""
    retention: str = ""
    """How long ended [runs are kept](retention.md), applied by `perdure gc`: rules separated by
    semicolons, of which the first that fits decides, such as `30d outcome=failed; keep
    label=audit-*; 365d`. Unset: for good."""
    journal_days: int = Field(0, ge=0, le=36500)
    """Days for which model calls of dropped runs keep their own rows in the
    [journal](retention.md#the-journal). After that `perdure gc` adds them up, and no sum changes.
    At least 7; `0`: for good."""
    plugins: Names = ()
    """Tools, checks and hooks that a worker loads: files (`./mytools.py`), package folders or
    modules."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged. Commands show only warnings and errors unless it is set."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Format of log lines. `auto`: JSON for a worker or API without a terminal, else plain text."""

    # Models
    anthropic_api_key: SecretStr | None = Field(
        None, validation_alias=_standard("anthropic_api_key")
    )
    """API key for the Messages API. Like every key here it may be a
    [reference](security.md#secrets)."""
    anthropic_auth_token: SecretStr | None = Field(
        None, validation_alias=_standard("anthropic_auth_token")
    )
    """Bearer token, for gateways that expect one instead of a key."""
    anthropic_base_url: Url | None = Field(None, validation_alias=_standard("anthropic_base_url"))
    """Another address for the Messages API."""
    openai_api_key: SecretStr | None = Field(None, validation_alias=_standard("openai_api_key"))
    """API key for the models `openai:…`."""
    openai_base_url: Url | None = Field(None, validation_alias=_standard("openai_base_url"))
    """Another address for OpenAI's Responses API."""
    azure_openai_api_key: SecretStr | None = Field(
        None, validation_alias=_standard("azure_openai_api_key")
    )
    """API key for the models `azure:…`; name them by their deployment."""
    azure_openai_endpoint: Url | None = Field(
        None, validation_alias=_standard("azure_openai_endpoint")
    )
    """Address of the Azure resource of these models: `https://NAME.openai.azure.com`."""
    providers: dict[ServerName, CompatibleServer] = {}
    """Servers for the models `compat:NAME/MODEL`: a JSON object, or a mapping in `perdure.yaml`, of
    names to entries with `url`, and `key` or `key_variable`. See [models](models.md)."""
    model: str | None = None
    """Model of runs that name none. Unset: Claude if there is a key, else the embedded model."""
    local_model: Literal["auto", "on", "off"] = "auto"
    """Whether to start the embedded model. `auto`: if it is installed; `on`: start it or fail."""
    model_url: Url | None = None
    """Address of the embedded model. Set by the supervisor."""

    # Runs
    max_open_runs: int | None = Field(None, ge=1)
    """How many [open runs](operations.md#open-runs) there may be; runs below others do not
    count."""
    max_open_runs_per_tenant: int | None = Field(None, ge=1)
    """How many of them one tenant may have (`metadata.tenant`, or else the label)."""
    above_max_open_runs: Above = "wait"
    """Whether a start above a limit waits, and says so, or is refused."""

    # Results
    inline_output_bytes: int = Field(16 * 1024, ge=0, le=128 * 1024)
    """How much of its output a run returns inline, for the Web UI, `temporal workflow result` and
    parent workflows. `0`: only the reference."""

    # Retries and timeouts
    backoff_initial_s: float = Field(2, gt=0, le=LONGEST_S)
    """First pause before a failed model call is retried, if the provider names none."""
    backoff_max_s: float = Field(30, gt=0, le=LONGEST_S)
    """Longest such pause. Each pause is twice the one before, up to this."""
    provider_attempts: int = Field(PROVIDER_ATTEMPTS, ge=1)
    """Attempts per call for a model without a fallback."""
    failover_attempts: int = Field(FAILOVER_ATTEMPTS, ge=1)
    """Attempts per call for a model with a fallback, before the fallback is used."""
    failover_after_s: float = Field(FAILOVER_AFTER_S, ge=0, le=LONGEST_S)
    """Longest time from the first failure until the fallback is used, even if the provider asks
    for a longer pause."""
    heartbeat_s: float = Field(10, gt=0, le=LONGEST_S)
    """A step without a heartbeat for this long counts as dead."""
    sticky_s: float = Field(5, gt=0, le=LONGEST_S)
    """How long a workflow task waits for the worker that has the run in its cache."""
    shutdown_grace_s: float = Field(120, ge=0, le=LONGEST_S)
    """How long steps in flight may take when a worker drains. Embedded workers: 10 unless set."""

    # Workers
    deployment: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")
    """Name of the [worker deployment](upgrades.md#versions-side-by-side) that workers register
    their version with, so that versions serve side by side. Unset: any worker takes any run.
    Workers of the embedded services register nothing."""
    max_concurrent_activities: int = Field(50, ge=1)
    """Concurrent steps per worker and queue."""
    max_concurrent_workflow_tasks: int = Field(50, ge=1)
    """Concurrent workflow tasks per worker."""
    max_cached_workflows: int = Field(1000, ge=0)
    """Runs that a worker keeps in memory. `0`: replay the history for each task."""
    model_calls_per_second: float | None = Field(None, gt=0)
    """Rate limit of model calls, in calls per second over all workers together. Models with a rate
    in `PERDURE_MODEL_RATES` do not count."""
    model_rates: dict[ModelPattern, CallRate | None] = {}
    """[Rate limits](operations.md#rate-limits) by provider or model, in calls per second over all
    workers: `{"openai:*": 5, "claude-opus-*": 0.5}`."""
    allow_commands: Names = ()
    """Programs that checks may run (`command`, `tests`, `lint`) in the sandbox. Add `shell.full`
    to offer that tool."""
    plain_commands: Names = ()
    """Programs among those that may run without a sandbox if bubblewrap is missing."""
    sandbox_network: Names = ()
    """Programs among those, or `shell.full`, that may use the host's network in the sandbox. They
    reach [all that the host reaches](security.md#programs-and-python-of-a-rubric)."""
    web_hosts: Names = ()
    """Hosts that `web.fetch` may read without approval: `docs.python.org`, `*.python.org` or `*`.
    With a list, all other hosts are refused."""
    sandbox_paths: Names = ()
    """Folders that sandboxed programs may read, besides the system and their own installation."""
    command_timeout_s: float = Field(120, gt=0, le=LONGEST_S)
    """The longest time that such a program may take, in seconds. A task can only shorten it."""
    trust_skills: bool = False
    """Give skills from accepted runs to later runs without asking a person."""
    mcp_file: Path | None = None
    """File with the [MCP servers](mcp.md) that tasks may use. Unset: `mcp.yaml` in the home
    folder."""
    metrics_address: str | None = Field(None, pattern=r"^(\[[0-9a-fA-F:]+\]|[^\s:/]+):[0-9]{1,5}$")
    """`HOST:PORT` at which Prometheus reads a [worker's metrics](monitoring.md#prometheus), without
    a token. Each worker on a host needs its own. Unset: none."""
    trace_content: Literal["off", "on"] = "off"
    """Whether [traces](monitoring.md#traces-and-metrics) hold what was said: prompts, replies, and
    arguments and results of tools. Known secrets are masked, long texts are cut."""

    # Notifications
    notify_webhook: SecretStr | None = None
    """Address to which each [notice](operations.md#notices) of an open gate or a refused start is
    sent as a JSON POST, or a reference to it."""
    notify_secret: SecretStr | None = None
    """Where to find the secret that signs webhooks: a [reference](security.md#secrets). The secret
    is `whsec_` and the base64 of 24 to 64 bytes."""
    notify_command: str | None = None
    """Command that gets each notice on standard input: words or a JSON list, without a shell."""

    # Encryption
    encryption_key: SecretStr | None = None
    """Where to find the key for blobs and Temporal's payloads: a [reference](security.md#secrets).
    The key is the base64 of 32 bytes."""
    encryption_old_keys: Names = ()
    """Earlier keys, also as references. They only decrypt."""
    encryption_plain: Literal["refused", "read"] = "refused"
    """With a key set, whether a run accepts values that are not encrypted. Use `read` for runs
    that began before the key was set."""
    payload_codec: str | None = Field(None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """The payload codec of [your own clients and workers](embedding.md#a-codec-of-your-own), as
    `PACKAGE.MODULE:FUNCTION`; the function returns it. It replaces
    `PERDURE_ENCRYPTION_KEY` for what goes to Temporal."""
    ui_codec_endpoint: str | None = None
    """Your own codec server for the embedded Web UI. Unset, with a key: Perdure starts one."""
    ui_hosts: Names = ()
    """Host names, besides loopback, at which browsers may reach the embedded Web UI."""
    codec_token: SecretStr | None = None
    """Where to find the token that callers of the codec server present: a
    [reference](security.md#secrets). Unset: one is made in `codec.token` of the home folder."""

    # REST API
    api: Literal["auto", "on", "off"] = "auto"
    """Whether the embedded services include the REST API. `auto`: if it is installed; `on`: start
    it or fail."""
    api_host: str = "127.0.0.1"
    """Address on which the REST API listens. Any other than loopback needs a usable token, or
    single sign-on."""
    api_port: int = Field(8237, ge=1, le=65535)
    """Port of the REST API. The embedded services take another free port if it is in use."""
    api_rate_per_minute: int = Field(600, ge=1)
    """Requests per token and minute, for REST and MCP each. Further requests get `429`."""
    api_body_bytes: int = Field(1024 * 1024, ge=1024)
    """Largest request body."""
    api_hosts: Names = ()
    """Host names by which the API may be called, such as that of a proxy. Loopback names always
    work on loopback."""
    api_proxies: Names = ()
    """Addresses or networks of reverse proxies in front of the API and the page, such as
    `127.0.0.1`. Their `x-forwarded-for` and `x-forwarded-proto` are believed, so that rate limits
    and the audit trail know the clients. Unset: all clients behind a proxy count as one."""
    api_origins: Names = ()
    """Origins of web pages that may call the API from a browser. Unset: none."""
    api_public: Annotated[tuple[Literal["docs", "metrics"], ...], NoDecode] = ()
    """What the API answers without a token, besides health: `docs`, `metrics`."""
    api_token_days: int = Field(90, ge=0, le=36500)
    """Days until a new or rotated token expires, unless `--days` or `--forever` is given. `0`:
    never."""
    api_separate_approver: bool = False
    """Forbids those who start a run to approve its tool calls."""
    page_url: str | None = Field(None, pattern=r"^https?://[^/\s?#@]+$")
    """Address at which browsers reach the page, such as `https://loops.example.org`. Unset: the
    address that a browser uses."""

    # Single sign-on
    oidc_issuer: str | None = None
    """Issuer of the OpenID Connect provider where people sign in to the page. Extra `sso`."""
    oidc_client_id: str | None = None
    """Id of this installation at the provider; its redirect address is
    `PAGE/sign-in/provider/back`."""
    oidc_client_secret: SecretStr | None = None
    """Where to find the secret that goes with it: a [reference](security.md#secrets)."""
    oidc_groups: dict[str, tuple[Scope, ...]] = {}
    """Scopes by group name at the provider: a JSON object, or a mapping in `perdure.yaml`.
    `*` is everybody who signs in."""
    oidc_groups_claim: str = "groups"
    """Claim that holds the groups of a person."""
    oidc_request: Names = ("openid", "profile", "email")
    """Scopes requested from the provider. Add `groups` if the provider needs it."""

    # Embedded services
    idle_minutes: float = Field(30, ge=0, le=LONGEST_S // 60)
    """Minutes without an open run or an active [schedule](schedules.md) after which the embedded
    services end. `0`: never."""
    workers: int = Field(1, ge=0)
    """Workers that the supervisor keeps running."""
    temporal_port: int = Field(7233, ge=1, le=65535)
    """Port of the embedded Temporal server. Another free port is taken if it is in use; commands
    read the port from the home folder."""
    ui_port: int = Field(8233, ge=1, le=65535)
    """Port of its Web UI. Another free port is taken if it is in use."""
    model_port: int = Field(8235, ge=1, le=65535)
    """Port of the embedded model. Another free port is taken if it is in use."""
    codec_port: int = Field(8236, ge=1, le=65535)
    """Port of the codec server. Another free port is taken if it is in use."""
    worker_command: tuple[str, ...] | None = None
    """JSON list: the command that starts a worker, instead of `perdure.worker`."""
    model_command: tuple[str, ...] | None = None
    """JSON list: the command that starts the model, instead of the embedded one. `{port}` and
    `{home}` are filled in."""
    ready_file: Path | None = None
    """File that a worker writes once it polls. The supervisor sets it for its own workers."""

    @field_validator("deployment", mode="before")
    @classmethod
    def _named(cls, deployment: object) -> object:
        return None if deployment == "" else deployment

    @field_validator("blobs", mode="after")
    @classmethod
    def _readable(cls, blobs: str | None) -> str | None:
        return None if blobs is None else BlobPlace.parse(blobs).url

    @field_validator("page_url", mode="after")
    @classmethod
    def _with_host(cls, page_url: str | None) -> str | None:
        if page_url is not None and host_of_origin(page_url) is None:
            raise ValueError("an address with a host, such as https://loops.example.org")
        return page_url

    @field_validator("retention", mode="after")
    @classmethod
    def _rules(cls, text: str) -> str:
        if text:
            # Imported only if it is set, because every command reads the settings.
            from perdure.domain.retention.rules import read_rules

            read_rules(text)
        return text

    @field_validator("journal_days", mode="after")
    @classmethod
    def _long_enough(cls, days: int) -> int:
        # A worker that was taken for dead may report for a while.
        if 0 < days < SHORTEST_JOURNAL_DAYS:
            raise ValueError(f"give {SHORTEST_JOURNAL_DAYS} days at least, or 0 to keep all")
        return days

    @field_validator("home", "mcp_file", "api_host", mode="before")
    @classmethod
    def _not_empty(cls, value: object) -> object:
        # An empty path is the current folder, and an empty host is every address of the machine.
        if value == "":
            raise ValueError("a text that is not empty")
        return value

    @field_validator("api", "local_model", "trace_content", mode="before")
    @classmethod
    def _switch(cls, value: object) -> object:
        # YAML reads a bare `on` or `off` as a boolean.
        return ("on" if value else "off") if isinstance(value, bool) else value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return expanded(home).absolute()

    @field_validator(
        "plugins",
        "allow_commands",
        "plain_commands",
        "sandbox_network",
        "sandbox_paths",
        "web_hosts",
        "encryption_old_keys",
        "api_origins",
        "api_hosts",
        "api_proxies",
        "ui_hosts",
        "api_public",
        "oidc_request",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                return tuple(json.loads(value))
            except (ValueError, TypeError):
                raise ValueError(LIST) from None
        if isinstance(value, str):
            return tuple(names_in(value))
        return value

    @field_validator("api_proxies", mode="after")
    @classmethod
    def _networks(cls, proxies: Names) -> Names:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError("addresses or networks, such as 10.0.0.7 or 10.0.0.0/8") from None
        return proxies

    @field_validator("metrics_address", mode="after")
    @classmethod
    def _listens(cls, address: str | None) -> str | None:
        if address is not None and int(address.rpartition(":")[2]) > HIGHEST_PORT:
            raise ValueError(f"HOST:PORT with a port of at most {HIGHEST_PORT}")
        return address

    @field_validator("plugins", mode="after")
    @classmethod
    def _from_here(cls, plugins: Names) -> Names:
        """Files by their absolute path, because services start in another folder."""
        return tuple(dict.fromkeys(plugin_place(name, working_folder()) for name in plugins))
