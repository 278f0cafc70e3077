"""What a worker, or a manager below the manager, is started with; a child is only ever narrowed."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.delegation.decisions import Envelope, Hypothesis
from perdure.domain.delegation.plan import TaskPlan
from perdure.domain.delegation.prompts import WORKER_SYSTEM
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.generated_tools.tool_registry import making_tools
from perdure.domain.turns.settings import AgentSettings, ToolsSpec
from perdure.domain.turns.tool_call_rules import ToolPolicy

LIGHT_SHARE = 0.05
GOAL_CHARACTERS = 400
# What steers a run is never handed down as data, whatever a manager calls its inputs.
CONTROL_KEYS = frozenset(
    {
        "agent", "budget", "control", "delegation", "gates", "goal", "kind", "learn", "metadata",
        "models", "recall", "rubric", "site", "skills", "tools", "workspace",
    }
)  # fmt: skip
WRITING = frozenset({"write", "execute"})
READONLY_SHELL = "shell.readonly"


def inherited(envelope: Envelope, inputs: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The named inputs that an envelope hands on; control keys and unknown ones are not."""
    return {
        name: inputs[name]
        for name in envelope.inherit
        if name in inputs and name not in CONTROL_KEYS
    }


def acceptance_of(envelope: Envelope, plan: TaskPlan) -> str:
    """What the result is measured by: the envelope's own words, else those of its subtask."""
    node = plan.node(envelope.subtask)
    return envelope.acceptance or (node.acceptance if node is not None else "")


def tools_for(
    envelope: Envelope,
    spec: DelegationSpec,
    terms: Sequence[ToolPolicy],
    made: Mapping[str, str],
) -> tuple[ToolsSpec, tuple[str, ...]]:
    """The run's tools, narrowed to those that were asked for; and the names that it does not have.

    Who asks for nothing gets all of them. Tools that were `made`, name to hash, are always offered.
    """
    have = tuple(term.name for term in terms if term.name not in made)
    asked = tuple(name for name in envelope.tools if name in have)
    unknown = tuple(name for name in envelope.tools if name not in have and name not in made)
    tools = {"allow": asked or have or None, "generated": dict(made)}
    return spec.tools.model_copy(update=tools), unknown


def writes(tools: ToolsSpec, terms: Sequence[ToolPolicy]) -> bool:
    """Whether any of the tools may change files, so that the worker needs a copy of its own."""
    return any(
        term.access in WRITING and term.name != READONLY_SHELL
        for term in terms
        if tools.allow is None or term.name in tools.allow
    )


def allowed_model(envelope: Envelope, spec: DelegationSpec) -> str | None:
    """The model that an envelope names, if the run's own specification names it too."""
    models = spec.models
    named = {
        name
        for role in ("executor", "worker", "manager", "critic", "evaluator", "planner")
        for name in models.chain(role)
    }
    return envelope.model if envelope.model in named else None


def worker_spec(
    envelope: Envelope, spec: DelegationSpec, *, tools: ToolsSpec, limits: BudgetLimits
) -> AgentSpec:
    """The specification of a worker; its whole task is its briefing."""
    model = allowed_model(envelope, spec)
    models = spec.models.model_copy(update={"worker": model}) if model else spec.models
    system = f"{WORKER_SYSTEM} {making_tools(spec.delegation.tools_factory)}".strip()
    return AgentSpec(
        kind="agent",
        goal=short_goal(envelope.instructions),
        category=spec.category,
        workspace=spec.workspace,
        models=models,
        tools=tools,
        budget=limits,
        recall=False,
        learn=False,
        metadata=spec.metadata,
        gates=spec.gates,
        agent=_worker_settings(spec.agent, system, envelope.temperature),
    )


def manager_spec(
    envelope: Envelope,
    spec: DelegationSpec,
    *,
    tools: ToolsSpec,
    limits: BudgetLimits,
    inputs: Mapping[str, JsonValue],
    sub_managers: int,
    acceptance: str,
    skills: tuple[str, ...] = (),
    written: tuple[str, ...] = (),
) -> DelegationSpec:
    """The specification of a manager below the manager, with its part of the tree's managers.

    It knows `skills` by name; procedures that were `written` for it are part of its task.
    """
    submanagers = spec.delegation.submanagers.model_copy(update={"per_run": sub_managers})
    expected = f"\n\nExpected result: {envelope.expected}" if envelope.expected else ""
    return spec.model_copy(
        update={
            "goal": "\n\n".join((f"{envelope.instructions}{expected}", *written)),
            "skills": skills,
            "about": "",
            "context": dict(inputs),
            "tools": tools,
            "budget": limits,
            "rubric": None,
            "recall": False,
            "learn": False,
            "delegation": spec.delegation.model_copy(
                update={
                    "submanagers": submanagers,
                    "success_criteria": (acceptance,) if acceptance else (),
                    "output_schema": envelope.result_schema,
                    "deliverables": (),
                    "smoke_test": None,
                }
            ),
        }
    )


def hypothesis_envelope(hypothesis: Hypothesis) -> Envelope:
    """The light work that tests one hypothesis."""
    return Envelope(
        worker=hypothesis.id,
        instructions=(
            f"Test this hypothesis: {hypothesis.statement}\nHow: {hypothesis.test}\n"
            "Spend little. Your confidence says how sure you are that it is true."
        ),
        expected="whether the hypothesis is true, and what shows it",
        budget_share=LIGHT_SHARE,
        sub_manager=False,
    )


def short_goal(instructions: str) -> str:
    """What lists show of a worker's task."""
    line = " ".join(instructions.split())
    return line if len(line) <= GOAL_CHARACTERS else f"{line[: GOAL_CHARACTERS - 1]}…"


def _worker_settings(given: AgentSettings, system: str, temperature: float) -> AgentSettings:
    return given.model_copy(
        update={
            "profile": "delegate",
            "system": system,
            "messages": (),
            "transcript": None,
            "temperature": temperature,
        }
    )
