"""The composition root: settings become adapters, adapters become services.

Nothing else builds adapters. What a door or a worker needs is made here and handed in.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from temporalio.client import Client

from perdure.about import VERSION
from perdure.adapters.checks import RubricChecks, check_problems
from perdure.adapters.definitions.store import LoopFiles
from perdure.adapters.llm.access import access_from, default_model, plugin_names
from perdure.adapters.llm.pricing import ModelPrices, load_price_sheet
from perdure.adapters.llm.registry import ModelCatalog, model_plugins
from perdure.adapters.mcp.server_config import BOOK_FILE, NoServers, load_book
from perdure.adapters.notifiers import tells_people
from perdure.adapters.plugins import has_plugins, plugin_check_names, plugin_checks, plugin_tools
from perdure.adapters.sandbox.commands import Allowance, LocalCommands
from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.adapters.sandbox.python_sandbox import SnippetRunner
from perdure.adapters.settings.variables import Settings, search_path, variable
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.stores.waiting_stores import patient, patient_disk
from perdure.adapters.telemetry import Telemetry, start_telemetry
from perdure.adapters.temporal.client import address_of, connect
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.adapters.tools.builtin import builtin_tools, kept_tools
from perdure.adapters.tools.generated_tools import MadeTools
from perdure.adapters.tools.host import AnyTool, LocalToolHost, ToolHosts
from perdure.adapters.tools.loop_tools import LoopTools
from perdure.adapters.tools.shell.full import shell_full
from perdure.adapters.tools.web.fetching import web_fetch
from perdure.adapters.verification.deliverables import Deliverables
from perdure.adapters.verification.verifier import Verifier
from perdure.adapters.workspaces.local import LocalWorkspaces, WorkingSkills
from perdure.domain.foundation.errors import InvalidInput, ServiceUnavailable
from perdure.domain.ports import Endpoints, ToolServers
from perdure.domain.run.spec import Timing
from perdure.domain.tools.selection import SHELL_FULL
from perdure.gateway.gateway import Gateway
from perdure.gateway.project_assignment import Settling
from perdure.gateway.types import InstallationInfo
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.services import OnProgress, Services
from perdure.local_services.embedded import EmbeddedRuntime
from perdure.local_services.temporal_server import register_search_attributes
from perdure.resolve_spec import Plugins, Resolver
from perdure.submission.layers import DEFAULTS_FILE
from perdure.submission.parse_yaml import parse
from perdure.submission.types import Surroundings

if TYPE_CHECKING:
    from perdure.adapters.mcp.servers import McpServers

T = TypeVar("T")
SETTING_NAMES = frozenset(Settings.model_fields)
WORK_FOLDER = "work"
PRICE_SHEET = "prices.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The adapters of one process, before anything is connected."""

    settings: Settings
    stores: Stores
    models: ModelCatalog
    tools: ToolHosts
    loop_tools: LoopTools
    servers: ToolServers
    made: MadeTools
    sandbox: MadeToolSandbox
    workspaces: LocalWorkspaces
    skill_folder: WorkingSkills
    checks: RubricChecks
    commands: LocalCommands
    verifier: Verifier
    loops: LoopFiles
    deliverables: Deliverables
    default_model: str
    telemetry: Telemetry


@asynccontextmanager
async def open_parts(settings: Settings, *, plugins: bool = False) -> AsyncGenerator[Parts]:
    """Open stores and build adapters; plugins are loaded by the worker alone."""
    stores = await open_stores(
        settings.home, settings.database_url, encryption_keys=encryption_keys(settings)
    )
    if plugins:
        stores = patient(stores)
    sheet = settings.home / PRICE_SHEET
    prices = ModelPrices(load_price_sheet(sheet) if sheet.exists() else None)
    access = access_from(settings)
    models = ModelCatalog(
        access=access,
        blobs=stores.blobs,
        records=stores.records,
        prices=prices,
        plugins=model_plugins() if plugins else None,
    )
    if plugins:
        models.load()
    telemetry = start_telemetry()
    snippets, commands = SnippetRunner(), LocalCommands(_allowance(settings))
    mcp = _mcp_servers(settings) if plugins else None
    loop_tools = LoopTools()
    sandbox = MadeToolSandbox()
    made = MadeTools(store=stores.made_tools, blobs=stores.blobs, sandbox=sandbox)
    try:
        extra = plugin_tools(settings.plugins) if plugins else ()
        checks = plugin_checks(settings.plugins) if plugins else {}
        yield Parts(
            settings=settings,
            stores=stores,
            models=models,
            tools=ToolHosts(
                _own_tools(settings, stores, commands, (*loop_tools.all(), *extra)),
                (made, mcp) if mcp else (made,),
            ),
            loop_tools=loop_tools,
            servers=mcp or NoServers(),
            made=made,
            sandbox=sandbox,
            workspaces=_waiting(
                LocalWorkspaces(settings.home / WORK_FOLDER, stores.blobs), plugins
            ),
            skill_folder=_waiting(WorkingSkills(), plugins),
            checks=RubricChecks(snippets=snippets, plugins=checks),
            loops=LoopFiles(settings.home, parse),
            commands=commands,
            verifier=_waiting(Verifier(commands), plugins),
            deliverables=Deliverables(),
            default_model=default_model(access),
            telemetry=telemetry,
        )
    finally:
        if mcp is not None:
            await mcp.aclose()
        snippets.close()
        await sandbox.aclose()
        telemetry.close()
        await models.aclose()
        await stores.close()


def _waiting(folders: T, of_worker: bool) -> T:
    """Working folders whose steps wait for room on the disk, where steps are made."""
    return patient_disk(folders) if of_worker else folders


@asynccontextmanager
async def services(
    settings: Settings, *, start: bool, on_progress: OnProgress, with_worker: bool = False
) -> AsyncGenerator[Services]:
    """The services of an installation; embedded ones are started first when `start` says so.

    Beside a named server nothing is started unless `with_worker` asks for it: a worker here would
    take tasks that are meant for the workers there, with the environment of whoever submits.
    """
    runtime = EmbeddedRuntime(settings)
    if start and (with_worker or settings.temporal.address is None):
        endpoints = await runtime.ensure(on_progress)
    else:
        state = await runtime.state()
        # Services of this home that belong to another server than the named one are not meant.
        ours = state is not None and settings.temporal.address in {
            None,
            state.endpoints.temporal_address,
        }
        endpoints = state.endpoints if state and ours else named_endpoints(settings)
    async with open_parts(settings) as parts:
        yield _services(parts, endpoints, address=partial(_started_since, runtime, settings))


async def _started_since(runtime: EmbeddedRuntime, settings: Settings) -> str:
    """The address of this home's own server, where none is named.

    A server that happens to listen at the usual port is not ours, and is not looked at.

    Raises:
        ServiceUnavailable: nothing runs.
    """
    if settings.temporal.address is not None:
        return settings.temporal.address
    if (state := await runtime.state()) is None:
        raise ServiceUnavailable(
            "No services of this installation run, and TEMPORAL_ADDRESS names no Temporal server.",
            cure="Start them with `perdure up --detach`, or set TEMPORAL_ADDRESS.",
        )
    return state.endpoints.temporal_address


def _own_tools(
    settings: Settings, stores: Stores, commands: LocalCommands, extra: Sequence[AnyTool]
) -> LocalToolHost:
    """The tools of Perdure itself, then those of plugins."""
    tools = (
        *builtin_tools(stores.blobs, stores.artifacts),
        *kept_tools(stores),
        web_fetch(settings.web_hosts),
        shell_full(commands, timeout_s=settings.command_timeout_s),
        *extra,
    )
    return LocalToolHost(tools, obstacles={SHELL_FULL: commands.shell_obstacle})


def _mcp_servers(settings: Settings) -> "McpServers | None":
    """The servers of the operator's book; the SDK is loaded only where there are some."""
    book = load_book(settings.mcp_file or settings.home / BOOK_FILE)
    if not book.servers:
        return None
    try:
        from perdure.adapters.mcp.servers import McpServers
    except ImportError as error:
        raise InvalidInput(
            f"{BOOK_FILE} allows MCP servers, but their library is not installed ({error}).",
            cure="Install it: pip install 'perdure[mcp]'.",
        ) from error
    return McpServers(book, secret=variable)


def _allowance(settings: Settings) -> Allowance:
    return Allowance(
        commands=settings.allow_commands,
        plain=settings.plain_commands,
        readable=settings.sandbox_paths,
        timeout_s=settings.command_timeout_s,
        search=search_path(),
    )


def named_endpoints(settings: Settings) -> Endpoints:
    """Where things answer when no embedded service runs."""
    return Endpoints(
        temporal_address=address_of(settings, f"127.0.0.1:{settings.temporal_port}"),
        namespace=settings.namespace,
        home=str(settings.home),
        model_url=settings.model_url,
    )


def loops_of(parts: Parts) -> LoopService:
    """The loops as the agents of a worker handle them: no file of its host is read."""
    found = _services(parts, named_endpoints(parts.settings))
    return LoopService(
        gateway=found.gateway,
        definitions_kept=found.definitions,
        records=found.records,
        blobs=found.blobs,
        journal=found.journal,
        surroundings=Surroundings(
            folder=None,
            user_defaults=parts.settings.home / DEFAULTS_FILE,
            default_model=parts.default_model,
            rubric_problems=check_problems,
            settings=SETTING_NAMES,
        ),
        by="worker",
    )


def _facts(parts: Parts, endpoints: Endpoints) -> InstallationInfo:
    settings = parts.settings
    return InstallationInfo(
        address=address_of(settings, endpoints.temporal_address),
        namespace=settings.namespace,
        ui_url=endpoints.ui_url,
        timing=Timing(
            heartbeat=settings.heartbeat_s,
            attempts=settings.provider_attempts,
            failover_attempts=settings.failover_attempts,
            failover_after=settings.failover_after_s,
            inline_output=settings.inline_output_bytes,
        ),
        version=VERSION,
        notifies=tells_people(settings),
        digest=parts.stores.digest,
    )


async def replayed_by(parts: Parts, run: str, history: bytes) -> str | None:
    """Why this code, with these stores, does not replay a history; None where it does."""
    # Replaying brings the workflows in, as the worker does.
    from perdure.operations import replay

    return await replay.why_not(
        run,
        history,
        blobs=parts.stores.blobs,
        keys=encryption_keys(parts.settings),
        plain=parts.settings.encryption_plain == "read",
    )


def _services(
    parts: Parts, endpoints: Endpoints, *, address: Callable[[], Awaitable[str]] | None = None
) -> Services:
    async def client() -> Client:
        return await connect(
            parts.settings,
            fallback=await address() if address else endpoints.temporal_address,
            blobs=parts.stores.blobs,
            telemetry=parts.telemetry,
        )

    stores, settings = parts.stores, parts.settings
    facts = _facts(parts, endpoints)
    gateway = Gateway(
        connect=client,
        blobs=stores.blobs,
        records=stores.records,
        journal=stores.journal,
        facts=facts,
        resolve=Resolver(
            parts.models,
            parts.default_model,
            parts.tools,
            Plugins(
                models=plugin_names(),
                tools=has_plugins(settings.plugins),
                checks=None if settings.plugins else plugin_check_names(),
            ),
            loops=parts.loops,
            rubric_problems=check_problems,
        ).resolve,
        settle=Settling(
            sessions=stores.sessions, projects=stores.projects, now=utc_now, words=facts.words
        ).settle,
        rubric_problems=check_problems,
        prepare=register_search_attributes,
        audit=AuditTrail(stores.audit, now=utc_now),
        why_not=partial(replayed_by, parts),
    )
    return Services(
        gateway=gateway,
        blobs=stores.blobs,
        records=stores.records,
        journal=stores.journal,
        transcripts=stores.transcripts,
        workspaces=parts.workspaces,
        memory=stores.memory,
        made_tools=stores.made_tools,
        sessions=stores.sessions,
        projects=stores.projects,
        artifacts=stores.artifacts,
        todos=stores.todos,
        access=stores.access,
        audit=stores.audit,
        definitions=parts.loops,
        models=parts.models,
        endpoints=endpoints,
    )
