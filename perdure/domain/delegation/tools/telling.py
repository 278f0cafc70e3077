"""What people and workers are told about made tools."""

from perdure.domain.delegation.settings import ToolsFactorySettings
from perdure.domain.delegation.tools.imports import EVERYWHERE
from perdure.domain.delegation.tools.steps import MakeToolReport

MAKING = (
    "If a small computation would serve you or later workers again and again, ask for a tool in "
    "`tools_needed`: {{name, code, schema, examples}}. The name is dotted (text.count{namespaces})."
    " The code is Python with one function `handler` that takes annotated, keyword-only arguments "
    "and returns a dict; other functions have a leading underscore. It may import {modules}. It "
    "has no files, no network, no generators, no class inheritance; for input that it refuses it "
    "raises ValueError. The schema is the JSON schema of the arguments, each without a default in "
    "`required`; an example is {{arguments, result}}. Tools are offered to the workers after you."
)


def making_tools(settings: ToolsFactorySettings) -> str:
    """What a worker is told about asking for tools; empty where none are made."""
    if not settings.enabled:
        return ""
    named = f"; begin with {' or '.join(settings.namespaces)}" if settings.namespaces else ""
    return MAKING.format(namespaces=named, modules=", ".join(sorted(EVERYWHERE)))


def approval_question(report: MakeToolReport, *, worker: str) -> str:
    """What a person reads who is asked about a tool: who made it, its hash, and its code."""
    return (
        f"{worker} made the tool {report.name}: {report.description}\n"
        f"May the workers of this run use exactly this code (hash {report.hash})?\n"
        f"Read it whole: perdure tools show {report.hash[:12]}\n\n{report.shown}"
    )
