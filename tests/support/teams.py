"""Runs of roles for tests: definitions as data, and replies of the team's members."""

from collections.abc import Mapping, Sequence

from perdure.domain.roles.definition import LoopDefinition, LoopSnapshot

APPROVED = {"requirements_met": True, "quality_pass": True, "findings": [], "rationale": "fine"}


def rejected(*titles: str) -> dict[str, object]:
    """A structured rejection for these findings."""
    findings = [
        {"severity": "important", "title": title, "fix": f"mend {title}"} for title in titles
    ]
    return {
        "requirements_met": False,
        "quality_pass": False,
        "findings": findings,
        "rationale": "not yet",
    }


def stage(name: str, **fields: object) -> dict[str, object]:
    """One stage, with a task that names it."""
    return {"name": name, "role": name, "prompt": f"Do the {name}.", "access": "minimal", **fields}


TEAM = (stage("plan"), stage("coder"), stage("reviewer"))
PAIR = (stage("coder"), stage("reviewer"))
REVIEWED = {"type": "evaluation_bound", "criteria": "It works.", "max_review_rounds": 3}


def team(
    *roles: Mapping[str, object],
    condition: Mapping[str, object] = REVIEWED,
    nested: Mapping[str, LoopSnapshot] | None = None,
) -> dict[str, object]:
    """The snapshot of a definition, as the start of a run makes it."""
    definition = LoopDefinition.model_validate(
        {
            "name": "team",
            "description": "a team of tests",
            "roles": [dict(role) for role in roles or TEAM],
            "termination_condition": dict(condition),
        }
    )
    snapshot = LoopSnapshot(definition=definition, version="1", nested=dict(nested or {}))
    return snapshot.model_dump(mode="json", by_alias=True)


def task(snapshot: Mapping[str, object] | None = None, **fields: object) -> dict[str, object]:
    """The specification of a run of roles."""
    settings = fields.pop("roles", {})
    assert isinstance(settings, dict)
    return {
        "kind": "roles",
        "goal": "Build a cache.",
        "learn": False,
        "roles": {"definition": "team", "snapshot": dict(snapshot or team()), **settings},
        **fields,
    }


def says(role: str, text: str | Mapping[str, object], **fields: object) -> dict[str, object]:
    """One reply of a role: a text, or a structure."""
    when = {"role": role, **(fields.pop("when", {}) or {})}  # type: ignore[dict-item]
    content = {"text": text} if isinstance(text, str) else {"json": dict(text)}
    return {"when": when, **content, **fields}


def asks(role: str, tool: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """One reply of a role that calls a tool."""
    call = {"name": tool, "arguments": dict(arguments)}
    return {"when": {"role": role}, "tool_calls": [call]}


def script(replies: Sequence[Mapping[str, object]], **fields: object) -> dict[str, object]:
    """A script of the scripted model with small figures."""
    return {
        "defaults": {"usage": {"input_tokens": 100, "output_tokens": 20}},
        "replies": [dict(reply) for reply in replies],
        **fields,
    }
