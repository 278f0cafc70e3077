"""The composition root: settings become adapters, adapters become services.

No other module builds adapters; interfaces and workers get theirs from here.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from perdure.adapters.checks import RubricChecks, check_problems
from perdure.adapters.definitions.store import LoopFiles
from perdure.adapters.hooks import BUILT_IN, ServedHooks, with_built_in
from perdure.adapters.llm.access import ModelAccess, access_from, default_model, plugin_names
from perdure.adapters.llm.pricing import ModelPrices, load_price_sheet
from perdure.adapters.llm.registry import ModelCatalog, ModelPlugin, model_plugins
from perdure.adapters.mcp.server_config import BOOK_FILE, NoServers, load_book
from perdure.adapters.plugins import (
    has_plugins,
    plugin_check_names,
    plugin_checks,
    plugin_hook_names,
    plugin_hooks,
    plugin_tools,
    warn_of_idle,
    with_own_checks,
)
from perdure.adapters.plugins_aside import hooks_aside, models_aside, tools_aside
from perdure.adapters.sandbox.commands import Allowance, LocalCommands
from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.adapters.sandbox.python_sandbox import SnippetRunner
from perdure.adapters.settings.variables import Settings, search_path, variable
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.key_use import require_known
from perdure.adapters.stores.open_stores import Stores, stores_of
from perdure.adapters.stores.waiting_stores import patient, patient_disk
from perdure.adapters.telemetry import Telemetry, start_telemetry
from perdure.adapters.tools.builtin import builtin_tools, kept_tools
from perdure.adapters.tools.generated_tools import MadeTools
from perdure.adapters.tools.host import AnyTool, LocalToolHost, ToolHosts
from perdure.adapters.tools.loop_tools import LoopTools
from perdure.adapters.tools.shell.full import shell_full
from perdure.adapters.tools.web.fetching import web_fetch
from perdure.adapters.verification.deliverables import Deliverables
from perdure.adapters.verification.verifier import Verifier
from perdure.adapters.workspaces.local import WORK_FOLDER, LocalWorkspaces, host_id
from perdure.adapters.workspaces.skill_folder import WorkingSkills
from perdure.composition.resolve_spec import Plugins, ReferenceProblems, Resolver
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.ports import ModelClient, ToolServers
from perdure.domain.roles.definition_library import RoleFile, StoredDefinition
from perdure.domain.run.bookkeeping_messages import ServedPlugins
from perdure.domain.tools.selection import SHELL_FULL
from perdure.extending.check_decorator import CustomCheck
from perdure.extending.hook_decorators import Hook
from perdure.extending.own_loop import OwnLoops

if TYPE_CHECKING:
    from perdure.adapters.mcp.server_tools import McpServers

T = TypeVar("T")
PRICE_SHEET = "prices.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """A program's own tools, models and so on, besides plugins; all but tools and hooks by name."""

    tools: tuple[AnyTool, ...] = ()
    checks: Mapping[str, CustomCheck] = field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    models: Mapping[str, ModelClient] = field(default_factory=dict)
    roles: Mapping[str, RoleFile] = field(default_factory=dict)
    definitions: Mapping[str, StoredDefinition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The adapters of one process, before anything is connected.

    `host` is the id of the worker's host; None if the store serves only one host.
    """

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
    hooks: ServedHooks
    commands: LocalCommands
    verifier: Verifier
    loops: LoopFiles
    deliverables: Deliverables
    default_model: str
    telemetry: Telemetry
    host: str | None
    brought: Brought = field(default_factory=Brought)
    further_tools: tuple[AnyTool, ...] = ()

    @property
    def served_plugins(self) -> ServedPlugins:
        """What a worker with these parts has beside Perdure's own, for those who submit."""
        # Names decide before a start. Texts and schemas would only make each probe's answer longer.
        bare: dict[str, object] = {"description": "", "parameters": {}}
        return ServedPlugins(
            tools=tuple(one.fact.model_copy(update=bare) for one in self.further_tools),
            checks=self.checks.plugin_names,
            hooks=tuple(sorted(set(self.hooks.listed) - set(BUILT_IN))),
        )


@asynccontextmanager
async def open_parts(
    settings: Settings, *, plugins: bool = False, brought: Brought | None = None
) -> AsyncGenerator[Parts]:
    """Open stores and build adapters; only a worker loads plugins."""
    async with AsyncExitStack() as resources:
        stores = await resources.enter_async_context(stores_of(settings))
        await require_known(stores.database, now=utc_now())
        # Only for workers: other commands have nothing to count.
        address = settings.metrics_address if plugins else None
        # Its variables are of the shell too, whose collector is not meant for a test.
        variables = None if settings.reads_variables else {}
        telemetry = start_telemetry(environment=variables, metrics_address=address)
        resources.callback(telemetry.close)
        yield build_parts(settings, stores, telemetry, resources, plugins=plugins, brought=brought)


def build_parts(
    settings: Settings,
    stores: Stores,
    telemetry: Telemetry,
    resources: AsyncExitStack,
    *,
    plugins: bool = False,
    brought: Brought | None = None,
) -> Parts:
    """Build the adapters over open stores; `resources` closes what they open."""
    brought = brought or Brought()
    # Only in workers. A command does not wait for a store that is away, but says so.
    if plugins:
        stores = patient(stores)
    access, own_loops = access_from(settings), OwnLoops()
    factories = models_aside(model_plugins(), own_loops) if plugins else None
    models = _models(settings, stores, access, plugins=factories, brought=brought)
    # Before `load`: whatever loading has opened is closed if a later model fails.
    resources.push_async_callback(models.aclose)
    if plugins:
        models.load()
    snippets, commands = SnippetRunner(), LocalCommands(_allowance(settings))
    resources.callback(snippets.close)
    mcp = _mcp_servers(settings) if plugins else None
    loop_tools, sandbox = LoopTools(), MadeToolSandbox()
    for opened in (sandbox, mcp):
        if opened is not None:
            resources.push_async_callback(opened.aclose)
    made = MadeTools(store=stores.made_tools, blobs=stores.blobs, sandbox=sandbox)
    if plugins:
        warn_of_idle(settings.plugins)
    of_plugins = tools_aside(plugin_tools(settings.plugins), own_loops) if plugins else ()
    further_tools = (*of_plugins, *brought.tools)
    return Parts(
        settings=settings,
        stores=stores,
        models=models,
        tools=ToolHosts(
            _own_tools(settings, stores, commands, (*loop_tools.all(), *further_tools)),
            (made, mcp) if mcp else (made,),
        ),
        loop_tools=loop_tools,
        servers=mcp or NoServers(),
        made=made,
        sandbox=sandbox,
        workspaces=_waiting(LocalWorkspaces(settings.home / WORK_FOLDER, stores.blobs), plugins),
        skill_folder=_waiting(WorkingSkills(), plugins),
        checks=_checks(settings, brought, snippets, plugins),
        hooks=_hooks(settings, brought, own_loops, plugins=plugins),
        loops=LoopFiles(settings.home, roles=brought.roles, definitions=brought.definitions),
        commands=commands,
        verifier=_waiting(Verifier(commands), plugins),
        deliverables=Deliverables(),
        default_model=default_model(access),
        telemetry=telemetry,
        host=_host(settings) if plugins else None,
        brought=brought,
        further_tools=further_tools,
    )


def _models(
    settings: Settings,
    stores: Stores,
    access: ModelAccess,
    *,
    plugins: Mapping[str, ModelPlugin] | None,
    brought: Brought,
) -> ModelCatalog:
    sheet = settings.home / PRICE_SHEET
    prices = ModelPrices(load_price_sheet(sheet) if sheet.exists() else None, settings.providers)
    return ModelCatalog(
        access=access,
        blobs=stores.blobs,
        records=stores.records,
        prices=prices,
        plugins=plugins,
        brought=brought.models,
    )


def _host(settings: Settings) -> str | None:
    """The id of this host; None with SQLite, which serves one host that has every folder."""
    return host_id(settings.home / WORK_FOLDER) if settings.database_url else None


def _checks(
    settings: Settings, brought: Brought, snippets: SnippetRunner, plugins: bool
) -> RubricChecks:
    of_plugins = plugin_checks(settings.plugins) if plugins else {}
    return RubricChecks(snippets=snippets, plugins=with_own_checks(of_plugins, brought.checks))


def _hooks(
    settings: Settings, brought: Brought, own_loops: OwnLoops, *, plugins: bool
) -> ServedHooks:
    """The hooks of Perdure, of plugins, and of the program itself."""
    of_plugins = plugin_hooks(settings.plugins).values() if plugins else ()
    hooks = with_built_in((*of_plugins, *brought.hooks))
    return ServedHooks(hooks_aside(hooks, own_loops, own=brought.hooks))


def _waiting(folders: T, of_worker: bool) -> T:
    """Working folders; in a worker, their operations wait while the disk is full."""
    return patient_disk(folders) if of_worker else folders


def _own_tools(
    settings: Settings, stores: Stores, commands: LocalCommands, extra: Sequence[AnyTool]
) -> LocalToolHost:
    """The tools of Perdure, then those of plugins."""
    tools = (
        *builtin_tools(stores.blobs, stores.artifacts),
        *kept_tools(stores),
        web_fetch(settings.web_hosts),
        shell_full(commands, timeout_s=settings.command_timeout_s),
        *extra,
    )
    return LocalToolHost(tools, obstacles={SHELL_FULL: commands.shell_obstacle})


def _mcp_servers(settings: Settings) -> "McpServers | None":
    """The MCP servers that the operator has set up; without any, the SDK is not loaded."""
    book = load_book(settings.mcp_file or settings.home / BOOK_FILE)
    if not book.servers:
        return None
    try:
        from perdure.adapters.mcp.server_tools import McpServers
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
        networked=settings.sandbox_network,
        readable=settings.sandbox_paths,
        timeout_s=settings.command_timeout_s,
        search=search_path(),
    )


def resolver(parts: Parts, references: ReferenceProblems) -> Resolver:
    """The resolver of specifications, with what is known without loading plugins."""
    settings = parts.settings
    return Resolver(
        parts.models,
        parts.default_model,
        parts.tools,
        Plugins(
            models=plugin_names() | set(parts.brought.models),
            tools=has_plugins(settings.plugins) or bool(parts.brought.tools),
            checks=None if settings.plugins or parts.brought.checks else plugin_check_names(),
            hooks=None
            if settings.plugins or parts.brought.hooks
            else plugin_hook_names() | set(BUILT_IN),
        ),
        loops=parts.loops,
        now=utc_now,
        rubric_problems=check_problems,
        references=references,
    )
