"""Which models a run calls for certain, and which of them the workers cannot call.

A worker tells by family what it lacks, such as a key. Only names whose family is certain are held
against it: `claude-…`, the embedded model, and those with a provider in front. Scripts, plugins and
others are left to the worker.
"""

from collections.abc import Mapping

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.names import COMPATIBLE, LOCAL_MODELS, PROVIDERS
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.stage_bindings import stage_chain
from perdure.domain.run.spec import ModelsSpec
from perdure.domain.specs import Spec, rubric_of

CLAUDE = "claude-"


def family_of(model: str) -> str | None:
    """The provider family of a model, if its name reveals it.

    `claude` and `local`, a provider, or `compat:` with the name of a server.
    """
    if model in LOCAL_MODELS:
        return "local"
    prefix, mark, rest = model.partition(":")
    if mark and prefix in PROVIDERS:
        if prefix == COMPATIBLE:
            return f"{COMPATIBLE}:{rest.partition('/')[0]}"
        return "claude" if prefix == "anthropic" else prefix
    return "claude" if model.startswith(CLAUDE) else None


def unserved(spec: Spec, lacks: Mapping[str, str]) -> tuple[str, ...]:
    """The models that a run needs and no worker can call: where each is named, and why.

    A chain is served when one of its models is.
    """
    found: dict[tuple[str, ...], str] = {}
    for path, chain in _needed(spec):
        why = [lacks.get(family_of(name) or "") for name in chain]
        if chain and all(why) and chain not in found:
            told = "; ".join(dict.fromkeys(reason for reason in why if reason))
            found[chain] = f"{path}: {', '.join(chain)}: {told}"
    return tuple(found.values())


def _needed(spec: Spec) -> list[tuple[str, tuple[str, ...]]]:
    """The chains that the run certainly calls, each with the place that names it."""
    models = spec.models
    match spec:
        case DelegationSpec():
            return _of_roles(models, "manager", "worker")
        case RolesSpec():
            snapshot = spec.roles.snapshot
            return _of_loop(snapshot, models) if snapshot is not None else []
        case AgentSpec() | RefineSpec():
            rubric = rubric_of(spec)
            judged = rubric is not None and None in rubric.judges
            return _of_roles(models, "executor", *(["evaluator"] if judged else []))


def _of_roles(models: ModelsSpec, *roles: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"models.{role}", models.chain(role)) for role in roles]


def _of_loop(snapshot: LoopSnapshot, models: ModelsSpec) -> list[tuple[str, tuple[str, ...]]]:
    definition, executor = snapshot.definition, models.chain("executor")
    found = [
        (
            f"{definition.name}.roles.{role.name}.model" if role.models else "models.executor",
            stage_chain(role, executor),
        )
        for role in definition.roles
        if role.loop is None
    ]
    for nested in snapshot.nested.values():
        found += _of_loop(nested, models)
    return found
