"""The tools of one run, pinned by hash, as its state carries them."""

from collections.abc import Mapping
from typing import Self

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.generated_tools.forbidden_names import EVERYWHERE
from perdure.domain.generated_tools.messages import MakeToolReport, ToolsFactorySettings
from perdure.domain.generated_tools.rejections import Stage
from perdure.domain.run.result import ToolMetrics

HANDLED_KEPT = 200


class PinnedTool(FrozenModel):
    """One tool on offer. `worker` made it in this run; without one it came from elsewhere."""

    hash: str
    description: str = ""
    worker: str | None = None


class WantedTool(FrozenModel):
    """A draft, by its address, that waits to be looked at."""

    worker: str
    draft: str


class Toolbox(FrozenModel):
    """What workers of the run may be offered, and what was tried so far.

    `gates` are the questions to people that wait, by the hash they are about; `handled` the newest
    drafts that need not be looked at again, `denied` the newest hashes that people denied to the
    run; `under_way` says of those in between, by the address
    that a worker handed in, what the newest repair made of it and how many there were.
    """

    tools: dict[str, PinnedTool] = {}
    gates: dict[str, str] = {}
    handled: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    under_way: dict[str, tuple[str, int]] = {}
    metrics: ToolMetrics = ToolMetrics()

    @property
    def pinned(self) -> dict[str, str]:
        """Name to hash, as a grant lists them."""
        return {name: tool.hash for name, tool in self.tools.items()}

    @classmethod
    def given(cls, pinned: Mapping[str, str]) -> Self:
        """The tools that a run begins with, name to hash; it made none of them."""
        return cls(tools={name: PinnedTool(hash=hash) for name, hash in pinned.items()})

    @property
    def made(self) -> dict[str, str]:
        """Name to hash of the tools that this run, or a run below it, made."""
        return {name: one.hash for name, one in self.tools.items() if one.worker is not None}

    @property
    def makers(self) -> tuple[str, ...]:
        """The worker behind every tool that this run made."""
        return tuple(tool.worker for tool in self.tools.values() if tool.worker is not None)

    def with_begun_draft(self, draft: str) -> Self:
        """One more draft was handed in; one that is under way already stays as it is."""
        if draft in self.under_way:
            return self
        under_way = {**self.under_way, draft: (draft, 0)}
        return self._with(metrics=self.metrics.attempted(), under_way=under_way)

    def with_failure(self, stage: Stage) -> Self:
        return self._with(metrics=self.metrics.failed(stage))

    def with_repair_attempt(self) -> Self:
        return self._with(metrics=self.metrics.repairing())

    def with_repaired_draft(self, draft: str, by: str) -> Self:
        """A repair of a draft is at another address."""
        _, repairs = self.under_way.get(draft, (draft, 0))
        return self._with(under_way={**self.under_way, draft: (by, repairs + 1)})

    def with_tool(self, name: str, tool: PinnedTool, *, cached: bool, repaired: bool) -> Self:
        """A tool is on offer from now on; one of the same name and hash stays as it is."""
        known = self.tools.get(name)
        # A tool that the run was given stays one that it did not make.
        kept = known if known is not None and known.hash == tool.hash else tool
        return self._with(
            tools={**self.tools, name: kept},
            metrics=self.metrics.succeeded(cached=cached, repaired=repaired),
        )

    def with_gate(self, hash: str, gate: str | None) -> Self:
        """A person is asked about a hash; None when that is over."""
        others = {one: name for one, name in self.gates.items() if one != hash}
        return self._with(gates=others if gate is None else {**others, hash: gate})

    def with_denial(self, hash: str) -> Self:
        """A person denied the run this code, however often it is handed in again."""
        return self._with(denied=(*self.denied, hash)[-HANDLED_KEPT:])

    def with_handled_draft(self, draft: str) -> Self:
        """A draft was handled to its end."""
        # By the address of the text that the worker handed in, whatever a repair made of it.
        others = {one: stands for one, stands in self.under_way.items() if one != draft}
        handled = (*self.handled, draft)[-HANDLED_KEPT:]
        return self._with(handled=handled, under_way=others)

    def with_tools_below(
        self, made: Mapping[str, str], metrics: ToolMetrics, *, worker: str
    ) -> Self:
        """With what a worker's own workers made; a name that is taken keeps its tool."""
        new = {name: PinnedTool(hash=hash, worker=worker) for name, hash in made.items()}
        # As in `name_refusal`: a name that is taken gets no other code.
        return self._with(tools={**new, **self.tools}, metrics=self.metrics + metrics)

    def _with(self, **changes: object) -> Self:
        return self.model_copy(update=changes)


# A worker this sure of its result asked for a tool that others will need.
SURE = 0.8
MAKING = (
    "If a small computation would serve you or later workers again and again, ask for a tool in "
    "`tools_needed`: {{name, code, schema, examples}}. The name is dotted (text.count{namespaces})."
    " The code is Python with one function `handler` that takes annotated, keyword-only arguments "
    "and returns a dict; other functions have a leading underscore. It may import {modules}. It "
    "has no files, no network, no generators, no class inheritance; for input that it refuses it "
    "raises ValueError. The schema is the JSON schema of the arguments, each without a default in "
    "`required`; an example is {{arguments, result}}. {then}"
)
AT_ONCE = (
    "If you need the tool to finish, hand back what you have with a confidence below {sure}: once "
    "the tool is made, you go on with it. Later workers have it as well."
)
APPROVED_FIRST = "A person approves it first; then workers after you have it."


def making_tools(settings: ToolsFactorySettings) -> str:
    """What a worker is told about asking for tools; empty where none are made."""
    if not settings.enabled:
        return ""
    named = f"; begin with {' or '.join(settings.namespaces)}" if settings.namespaces else ""
    then = APPROVED_FIRST if settings.approve else AT_ONCE.format(sure=SURE)
    modules = ", ".join(sorted(EVERYWHERE))
    return MAKING.format(namespaces=named, modules=modules, then=then)


GO_ON = (
    "The tools that you asked for are made. Go on with the work above: use them, and hand back the "
    "whole result, not only what is new."
)


def tools_made(tools: Mapping[str, PinnedTool]) -> str:
    """What a worker is told that gets the tools it asked for, and goes on with its work."""
    lines = (f"- {name}: {tool.description}".rstrip(": ") for name, tool in tools.items())
    return "\n".join((GO_ON, *lines))


def approval_question(report: MakeToolReport, *, worker: str) -> str:
    """What a person reads who is asked about a tool: who made it, its hash, and its code."""
    return (
        f"{worker} made the tool {report.name}: {report.description}\n"
        f"May the workers of this run use exactly this code (hash {report.hash})?\n"
        f"Read it whole: perdure tools show {report.hash[:12]}\n\n{report.shown}"
    )
