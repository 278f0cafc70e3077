"""What a worker is started with, and which workers become managers; a child is only narrowed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.delegation.decisions import Envelope, Hypothesis
from perdure.domain.delegation.plan import TaskPlan
from perdure.domain.delegation.prompts import WORKER_SYSTEM
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.generated_tools.tool_registry import making_tools
from perdure.domain.llm.attachments import attachment_in
from perdure.domain.run.hooks import Hooks
from perdure.domain.turns.settings import AgentSettings, ToolsSpec
from perdure.domain.turns.tool_call_rules import ToolPolicy

EXPLICIT = 10
THRESHOLD = 3
SEVERAL = 3
COMPLEX_TOGETHER = 2

_PREREQUISITE = re.compile(
    r"\b(?:fetch|clone|download|prepare|set ?up|setup|mkdir|copy|ingest|install)", re.IGNORECASE
)
_REAL_WORK = re.compile(r"\b(?:research|analy[sz]|synthes|iterat)", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"\b(research|analy[sz]|synthes|iterat|investigat|compar|evaluat|design|architect|implement"
    r"|integrat|optimi[sz]|refactor|comprehensive|multi-?step|end-to-end)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Promotions:
    """The places of the envelopes that become sub-managers, and what the manager is told."""

    places: frozenset[int]
    notes: tuple[str, ...] = ()


def complexity(envelope: Envelope, plan: TaskPlan) -> int:
    """The complexity score of one envelope; a mere prerequisite scores 0."""
    if envelope.sub_manager is not None:
        return EXPLICIT if envelope.sub_manager else 0
    text = envelope.instructions
    if _PREREQUISITE.search(text) and not _REAL_WORK.search(text):
        return 0
    words = len(text.split())
    # Different ones: a text that says “compare” three times is no more complex for it.
    keywords = len({match.casefold() for match in _KEYWORDS.findall(text)})
    node = plan.node(envelope.subtask)
    return sum(
        (
            _step(words, two=80, one=40),
            _step(keywords, two=3, one=1),
            _step(len(_LISTED.findall(text)), two=3, one=2),
            envelope.priority == "high" and words >= 25,
            node is None or not node.depends_on,
        )
    )


def scores(envelopes: Sequence[Envelope], plan: TaskPlan) -> tuple[int, ...]:
    """The scores of envelopes that are delegated together: several complex ones lift each other."""
    alone = [complexity(envelope, plan) for envelope in envelopes]
    open_ones = [envelope.sub_manager is None for envelope in envelopes]
    lifted = [
        is_open and score >= COMPLEX_TOGETHER
        for is_open, score in zip(open_ones, alone, strict=True)
    ]
    bonus = 2 if sum(lifted) >= SEVERAL else 0
    return tuple(score + bonus * is_lifted for score, is_lifted in zip(alone, lifted, strict=True))


def promotions(envelopes: Sequence[Envelope], plan: TaskPlan, *, allowed: int) -> Promotions:
    """Who becomes a sub-manager: from the threshold on, best first, as many as are allowed.

    Args:
        envelopes: the work of one iteration.
        plan: where dependencies are known from.
        allowed: free places by depth, at once and in the whole tree.
    """
    rated = scores(envelopes, plan)
    wanted = sorted(
        (place for place, score in enumerate(rated) if score >= THRESHOLD),
        key=lambda place: (-rated[place], place),
    )
    most = min(max(0, allowed), len(envelopes) // 2 + 1)
    left_out = [place for place in wanted[most:] if envelopes[place].sub_manager]
    notes = tuple(
        f"{envelopes[place].worker} works alone: no further sub-manager is allowed now."
        for place in left_out
    )
    return Promotions(frozenset(wanted[:most]), notes)


def _step(count: int, *, two: int, one: int) -> int:
    return 2 if count >= two else int(count >= one)


# The least that any child is given.
LIGHT_SHARE = 0.05
GOAL_CHARACTERS = 400
WRITING = frozenset({"write", "execute"})
# The one tool of the class `execute` that leaves the files as they are.
READONLY_SHELL = "shell.readonly"


def tools_for(
    envelope: Envelope, spec: DelegationSpec, terms: Sequence[ToolPolicy], made: Mapping[str, str]
) -> tuple[ToolsSpec, tuple[str, ...]]:
    """The run's tools, narrowed to those that were asked for, and the names that are unknown.

    Who asks for nothing gets all of them. Tools that were `made`, name to hash, are always offered.
    Each is named: a worker of a run without tools, or one that asked for no known tool, has none.
    """
    have = tuple(term.name for term in terms if term.name not in made)
    asked = tuple(name for name in envelope.tools if name in have)
    unknown = tuple(name for name in envelope.tools if name not in have and name not in made)
    tools = {"allow": asked if envelope.tools else have, "generated": dict(made)}
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
    # Who wrote the task agreed to no other model's price or provider.
    return envelope.model if envelope.model in named else None


def worker_spec(
    envelope: Envelope,
    spec: DelegationSpec,
    *,
    tools: ToolsSpec,
    limits: BudgetLimits,
    handed_on: Mapping[str, JsonValue] | None = None,
) -> AgentSpec:
    """The specification of a worker; its whole task is its briefing.

    Of the inputs that are `handed_on` it is shown the images and PDFs; the others are texts, which
    the briefing has.
    """
    shown = {name: value for name, value in (handed_on or {}).items() if attachment_in(value)}
    model = allowed_model(envelope, spec)
    models = spec.models.model_copy(update={"worker": model}) if model else spec.models
    system = f"{WORKER_SYSTEM} {making_tools(spec.delegation.tools_factory)}".strip()
    return AgentSpec(
        kind="agent",
        goal=short_goal(envelope.instructions),
        context=shown,
        category=spec.category,
        workspace=spec.workspace,
        models=models,
        tools=tools,
        budget=limits,
        # The manager is told what earlier runs learned, and the run at the top learns for all.
        recall=False,
        learn=False,
        metadata=spec.metadata,
        gates=spec.gates,
        priority=spec.priority,
        upgrade=spec.upgrade,
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
            # It is measured by its acceptance text: these speak of the whole task's result.
            "rubric": None,
            "recall": False,
            "learn": False,
            "hooks": Hooks(),
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
            "Spend little. Your confidence says how sure you are that it is true; it is 0 if the "
            "hypothesis is refuted."
        ),
        expected="whether the hypothesis is true, and what shows it",
        budget_share=LIGHT_SHARE,
        sub_manager=False,
    )


def short_goal(instructions: str) -> str:
    """What lists show of a worker's task."""
    return clipped(" ".join(instructions.split()), GOAL_CHARACTERS)


def _worker_settings(given: AgentSettings, system: str, temperature: float) -> AgentSettings:
    return given.model_copy(
        update={
            "profile": "delegate",
            "system": system,
            # A conversation that the task begins with is not the worker's.
            "messages": (),
            "transcript": None,
            "temperature": temperature,
        }
    )
