"""A run's specification: one model per kind, told apart by `kind`."""

from typing import Annotated

from pydantic import Field, TypeAdapter

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.base import BUILT_WHEN_USED
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.output_schema import OutputSchema


def output_schema_of(spec: CommonSpec) -> OutputSchema | None:
    """The schema that the answer of a run fits; None for kinds and tasks without one."""
    return spec.output_schema if isinstance(spec, AgentSpec | RefineSpec) else None


def rubric_of(spec: CommonSpec | None) -> Rubric | None:
    """The rubric of a specification; None for kinds and tasks without one."""
    return spec.rubric if isinstance(spec, RefineSpec | DelegationSpec) else None


Spec = AgentSpec | RefineSpec | RolesSpec | DelegationSpec


RunSpec = Annotated[Spec, Field(discriminator="kind")]


RUN_SPEC: TypeAdapter[Spec] = TypeAdapter(RunSpec, config=BUILT_WHEN_USED)


KINDS = ("agent", "refine", "roles", "delegation")


def task_fields() -> frozenset[str]:
    """The names of all fields that a task of some kind has."""
    kinds = (AgentSpec, RefineSpec, RolesSpec, DelegationSpec)
    return frozenset(name for kind in kinds for name in kind.model_fields)
