"""Fills in what a specification leaves open, and refuses what this installation cannot run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.adapters.checks import schema_problem
from perdure.adapters.llm.embedded_facts import LOCAL_NAME
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import STAND_IN_CURE, AssumePrice, priceless_stand_in
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import RubricProblems, no_problems, unknown_checks
from perdure.domain.evaluation.termination_conditions import ToolBound, past_moments, placed_leaves
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.foundation.problems import Problem, nearest_name
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.model_limits import beyond_its_models, loops_of
from perdure.domain.ports import ModelClient, Models, ToolHost
from perdure.domain.refine.spec import RefineSpec, StrategyTools
from perdure.domain.roles.definition import LoopSnapshot, capabilities
from perdure.domain.roles.definition_library import DefinitionStore
from perdure.domain.roles.parse_definition import text_of
from perdure.domain.roles.resolved_loop import Resolved, resolve_loop
from perdure.domain.roles.spec import RolesSettings, RolesSpec
from perdure.domain.roles.stage_bindings import run_level
from perdure.domain.run.bookkeeping_messages import Served, ServedPlugins
from perdure.domain.run.hooks import unusable_hooks
from perdure.domain.run.spec import ROLES, ModelsSpec
from perdure.domain.specs import KINDS, Spec, output_schema_of, rubric_of
from perdure.domain.tools.definitions import AccessLevel, ToolDefinition
from perdure.domain.tools.selection import is_later, select


async def resolved_loop(
    spec: RolesSpec, store: DefinitionStore, tools: Sequence[ToolDefinition]
) -> Resolved:
    """The snapshot of a run's definition, with the goal's placeholders replaced.

    A specification with a snapshot keeps it: forks and retries use the loop with which the run
    began, unless a fork asks for another loop or other parameters.
    """
    settings = spec.roles
    # Files of definitions change; who retries or forks means the loop as it was.
    if settings.snapshot is not None and _is_of(settings.snapshot, settings):
        return Resolved(snapshot=settings.snapshot, goal=spec.goal)
    names = [fact.name for fact in tools]
    return resolve_loop(
        await store.library(spec.workspace),
        settings.definition,
        goal=spec.goal,
        parameters=settings.parameters,
        provided=capabilities(names, KINDS),
    )


def _is_of(snapshot: LoopSnapshot, settings: RolesSettings) -> bool:
    """Whether a snapshot is of the requested loop with the requested parameters."""
    given = {name: value for name, value in settings.parameters.items() if value is not None}
    return snapshot.definition.name == settings.definition and all(
        snapshot.parameters.get(name) == text_of(value) for name, value in given.items()
    )


ReferenceProblems = Callable[[Spec], Awaitable[list[str]]]


async def nothing_missing(_spec: Spec, /) -> list[str]:
    """Find no problems, for resolvers without stores."""
    return []


CORRECT = "Correct these and retry."
NO_KEY = (
    "No key of a provider was found, so the embedded model was taken, which writes text and no "
    "more. For another: export ANTHROPIC_API_KEY=…, and start the services again (perdure down)."
)


@dataclass(frozen=True, slots=True)
class Plugins:
    """What plugins add, as far as it is known without loading them; only workers load plugins.

    `models` are the names of model plugins, and `tools` says whether a plugin may add tools.
    `checks` and `hooks` are the names of checks and hooks, or None if only the worker knows them.
    """

    models: frozenset[str] = frozenset()
    tools: bool = False
    checks: frozenset[str] | None = frozenset()
    hooks: frozenset[str] | None = None


class Resolver:
    """Resolves models and tools before anything is started.

    What only plugins know is checked by the worker, before the first model call.
    """

    def __init__(
        self,
        models: Models,
        default_model: str,
        tools: ToolHost,
        plugins: Plugins | None = None,
        *,
        loops: DefinitionStore,
        now: Callable[[], datetime],
        rubric_problems: RubricProblems = no_problems,
        references: ReferenceProblems = nothing_missing,
    ) -> None:
        self._models = models
        self._default = default_model
        self._tools = tools
        self._plugins = plugins or Plugins()
        self._loops = loops
        self._now = now
        self._rubric_problems = rubric_problems
        self._references = references

    async def resolve(self, spec: Spec, served: Served | None = None, /) -> Spec:
        """The specification with an executor, an access level, and the loop it names.

        The default model and the known names are also those that the workers report (`served`):
        whoever submits may have no key, other prices, or not the code that was brought to them.

        Raises:
            InvalidInput: unknown models, tools, checks or loops, parameters, patterns or schemas
                that cannot be used, tools for a model that cannot choose them, a judge that
                cannot judge, or an end in the past. Every problem is named at once.
        """
        models = self._with_executor(spec.models, served)
        problems: list[str] = []
        brought = served.plugins if served is not None else ServedPlugins()
        catalog = await self._catalog(brought)
        # Before the models are looked up: only the resolved loop says which ones its stages name.
        spec = await self._with_loop(spec, catalog, problems)
        cards: dict[str, ModelProfile] = {}
        named = {name: f"models.{role}" for name, role in _first_named(spec.models, models).items()}
        of_parts = {**_of_stages(spec), **_of_strategies(spec), **_of_rubric(spec)}
        for name, path in {**of_parts, **named}.items():
            await self._card(path, name, cards, problems, served)
        # A model that only the workers know counts as able to choose tools: they check it.
        first = cards.get(models.chain("executor")[0])
        access = _access(spec, chooses=first is None or first.tools)
        tools = spec.tools.model_copy(update={"access": access})
        selection = select(
            # Only the worker, maybe on another host, knows whether a tool is available.
            [fact.model_copy(update={"unavailable": ""}) for fact in catalog],
            level=access,
            allow=tools.allow,
            deny=tools.deny,
            approve=tools.approve,
            timeouts=tools.timeouts,
            belongs=isinstance(spec, RolesSpec),
            later=[server.prefix for server in tools.mcp],
            orchestrates=isinstance(spec, AgentSpec),
        )
        # Where a plugin may bring tools, an unknown name is no problem before a worker says so.
        problems += () if self._plugins.tools else selection.problems
        beyond_models = beyond_its_models(spec, models, cards, tools=selection.names)
        problems += (*beyond_models, *_unusable_schemas(spec), *_strange_settings(spec))
        problems += self._unusable_checks(spec, brought)
        problems += map(str, past_end_problems(spec, now=self._now()))
        hooks = _known(self._plugins.hooks, brought.hooks)
        problems += unusable_hooks(spec.kind, spec.hooks, hooks)
        problems += () if self._plugins.tools else _unknown_tool_problems(spec, selection.names)
        problems += (*await self._references(spec), *await self._priceless(spec, served))
        if problems:
            # The embedded model was only the default, for lack of a key. If it is missing or not
            # capable enough, hint at the key.
            unknown = models.chain("executor")[0] not in cards
            keyless = spec.models.executor is None and models.executor == LOCAL_NAME
            listed = "\n".join(f"  {problem}" for problem in problems)
            raise InvalidInput(
                f"The run cannot start:\n{listed}",
                cure=f"{CORRECT} {NO_KEY}" if keyless and (unknown or beyond_models) else CORRECT,
                problems=(_placed(problem) for problem in problems),
            )
        return spec.model_copy(update={"models": models, "tools": tools})

    async def _catalog(self, brought: ServedPlugins) -> list[ToolDefinition]:
        """The tools that are known here, then those that only the workers have."""
        own = list(await self._tools.catalog())
        names = {fact.name for fact in own}
        return [*own, *(fact for fact in brought.tools if fact.name not in names)]

    async def _with_loop(
        self, spec: Spec, catalog: Sequence[ToolDefinition], problems: list[str]
    ) -> Spec:
        """A run of roles with the snapshot of its definition; other runs are unchanged."""
        if not isinstance(spec, RolesSpec):
            return spec
        found = await resolved_loop(spec, self._loops, catalog)
        problems += [str(problem) for problem in found.problems]
        if found.snapshot is None:
            return spec
        roles = spec.roles.model_copy(update={"snapshot": found.snapshot})
        return spec.model_copy(update={"goal": found.goal, "roles": roles})

    def _with_executor(self, models: ModelsSpec, served: Served | None) -> ModelsSpec:
        if models.executor is not None:
            return models
        default = (served.models.default if served is not None else "") or self._default
        return models.model_copy(update={"executor": default})

    def _unusable_checks(self, spec: Spec, brought: ServedPlugins) -> list[str]:
        rubric = rubric_of(spec)
        if rubric is None:
            return []
        known = _known(self._plugins.checks, brought.checks)
        unknown = () if known is None else unknown_checks(rubric, known)
        return [str(problem) for problem in (*unknown, *self._rubric_problems(rubric))]

    async def _card(
        self,
        path: str,
        name: str,
        cards: dict[str, ModelProfile],
        problems: list[str],
        served: Served | None,
    ) -> None:
        # Its code is not loaded here, so nothing is known of it but its name.
        if name in self._plugins.models:
            return
        try:
            client: ModelClient = self._models.resolve(name)
            cards[name] = await client.card(name)
        except PerdureError as error:
            if served is not None and served.models.serves(name):
                return  # only the workers have its profile
            problems.append(f"{path}: {error}")

    async def _priceless(self, spec: Spec, served: Served | None) -> list[str]:
        """Problems: a stand-in for unknown prices that has no price itself."""
        policy = spec.budget.unknown_price
        if not isinstance(policy, AssumePrice):
            return []
        name, problems = policy.assume, list[str]()
        found: dict[str, ModelProfile] = {}
        await self._card("budget.unknown_price.assume", name, found, problems, served)
        known = found.get(name)
        # The price sheet of the workers may have what the one here has not.
        theirs = served is not None and served.models.serves(name)
        if known is not None and known.price is None and not theirs:
            problems.append(f"{priceless_stand_in(name)} {STAND_IN_CURE}")
        return problems


def _known(here: frozenset[str] | None, brought: Sequence[str]) -> frozenset[str] | None:
    return None if here is None else here.union(brought)


def _placed(problem: str) -> tuple[str, str]:
    path, mark, words = problem.partition(": ")
    return (path, words) if mark else ("", problem)


def _first_named(given: ModelsSpec, filled: ModelsSpec) -> dict[str, str]:
    """Every model once, with the first role that uses it; roles that name models come first."""
    said = [role for role in ROLES if given.chain(role) and getattr(given, role) is not None]
    first: dict[str, str] = {}
    # So that a problem names the field that the person wrote, not a role that inherits from it.
    for role in (*said, *ROLES):
        for name in filled.chain(role):
            first.setdefault(name, role)
    return first


def _access(spec: Spec, *, chooses: bool) -> AccessLevel:
    """The access level of the run, if it names none; for roles, the widest of its stages."""
    if isinstance(spec, RolesSpec) and spec.roles.snapshot is not None:
        definition = spec.roles.snapshot.definition
        chooses = chooses or any(role.models for role in definition.roles)
        return run_level(spec.roles.snapshot, spec.tools) if chooses else "minimal"
    return spec.tools.access or ("readonly" if chooses else "minimal")


def _of_stages(spec: Spec) -> dict[str, str]:
    """The models that stages of a loop and of nested loops name, by path."""
    return {
        name: f"{definition.name}.roles.{role.name}.model"
        for definition in loops_of(spec)
        for role in definition.roles
        for name in role.models
    }


def _of_strategies(spec: Spec) -> dict[str, str]:
    """The models that strategies name, by path."""
    if not isinstance(spec, RefineSpec):
        return {}
    return {
        name: f"refine.strategies[{index}].model"
        for index, strategy in enumerate(spec.refine.strategies)
        for name in strategy.chain
    }


def _of_rubric(spec: Spec) -> dict[str, str]:
    """The models that the rubric names as judges, by path."""
    rubric = rubric_of(spec)
    return {
        item.judge: f"rubric[{index}].evaluator.judge.model"
        for index, item in enumerate(rubric.dimensions if rubric else ())
        if item.judge is not None
    }


def _unknown_tool_problems(spec: Spec, names: Sequence[str]) -> list[str]:
    """Problems: tools that strategies or conditions name and the run does not have."""
    if isinstance(spec, RolesSpec):
        return _beyond_stages(spec, names)
    if not isinstance(spec, RefineSpec):
        return []
    have = ", ".join(names) or "none"
    later = [server.prefix for server in spec.tools.mcp]
    tree = spec.refine.termination
    unmet = [
        f"{path}.tool: the run has no tool {leaf.tool!r}; it has {have}"
        for path, leaf in (placed_leaves(tree, root="refine.termination") if tree else ())
        if isinstance(leaf, ToolBound) and leaf.tool not in names and not is_later(leaf.tool, later)
    ]
    return unmet + [
        f"refine.strategies[{index}].tools.allow: the run has no tool {pattern!r}; it has {have}"
        for index, strategy in enumerate(spec.refine.strategies)
        for pattern in (strategy.tools.allow if strategy.tools else None) or ()
        if not StrategyTools(allow=(pattern,)).offered(names) and not is_later(pattern, later)
    ]


def _beyond_stages(spec: RolesSpec, names: Sequence[str]) -> list[str]:
    """Problems: tools that the condition of a loop waits for and no stage has."""
    if spec.roles.snapshot is None:
        return []
    definition, have = spec.roles.snapshot.definition, ", ".join(names) or "none"
    root = f"{definition.name}.termination_condition"
    return [
        f"{path}.tool: the run has no tool {leaf.tool!r}; it has {have}"
        for path, leaf in placed_leaves(definition.termination_condition, root=root)
        if isinstance(leaf, ToolBound) and leaf.tool not in names
    ]


def past_end_problems(spec: Spec, *, now: datetime) -> list[Problem]:
    """Moments in the conditions of a run that have come, so that it would end at once."""
    if isinstance(spec, RefineSpec) and spec.refine.termination is not None:
        return [*past_moments(spec.refine.termination, now=now, root="refine.termination")]
    return [
        problem
        for loop in loops_of(spec)
        for problem in past_moments(
            loop.termination_condition, now=now, root=f"{loop.name}.termination_condition"
        )
    ]


def _strange_settings(spec: Spec) -> list[str]:
    """Problems: settings of roles that the run does not have."""
    stages = [role.role for definition in loops_of(spec) for role in definition.roles]
    known = sorted({*ROLES, *stages})
    found: list[str] = []
    for name in spec.models.settings:
        if name not in known:
            near = nearest_name(name, known)
            hint = f"did you mean {near}? It" if near else "it"
            found.append(f"models.settings.{name}: no such role; {hint} has {', '.join(known)}")
    return found


def _unusable_schemas(spec: Spec) -> list[str]:
    """Problems: result schemas that cannot be used."""
    given = {"output_schema": output_schema_of(spec)}
    if isinstance(spec, DelegationSpec):
        given["delegation.output_schema"] = spec.delegation.output_schema
    problems = {path: schema_problem(schema) for path, schema in given.items() if schema}
    return [f"{path}: {problem}" for path, problem in problems.items() if problem]
