"""The plan of a run that has not started, with the current facts about its models and workers."""

from collections.abc import Sequence
from contextlib import suppress

from perdure.domain.foundation.errors import (
    InvalidInput,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreError,
)
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.specs import Spec
from perdure.domain.turns.prompts import input_address
from perdure.gateway.types import QueueState
from perdure.interfaces.plan import RunPlan, models_of, plan_run
from perdure.interfaces.services import Services


async def look_ahead(
    services: Services, spec: Spec, *, default_model: str, notes: Sequence[str]
) -> RunPlan:
    """Plan what a run would do and could cost at most.

    Args:
        services: the gateway, and what is known of models.
        spec: what would be started.
        default_model: for runs that name no model, if the workers report no default.
        notes: notes of the submission.

    Raises:
        PerdureError: a real start would fail as well.
    """
    # First, as the check takes the default model and the plugins from what workers answer.
    queues, unknown = await _readiness(services, spec)
    resolved = await services.gateway.check(spec)
    default = await services.gateway.default_model() if queues else None
    return plan_run(
        resolved,
        cards=await _cards(services, resolved, default_model),
        queues=queues,
        default_model=default or default_model,
        unknown=unknown,
        warnings=notes,
        texts=await _texts(services, resolved),
    )


async def _texts(services: Services, spec: Spec) -> dict[str, str]:
    """The inputs stored as blobs; those that are missing or not text are left out."""
    found: dict[str, str] = {}
    for value in spec.context.values():
        address = input_address(value)
        if address is not None:
            with suppress(InvalidInput, NotFound, StoreError):
                found[address] = await services.blobs.get_text(address)
    return found


async def _readiness(services: Services, spec: Spec) -> tuple[Sequence[QueueState], str | None]:
    """The state of the queues, or why it is unknown."""
    try:
        return await services.gateway.readiness(spec), None
    except ServiceUnavailable as error:
        return (), f"nobody could be asked. {error}"


async def _cards(services: Services, spec: Spec, default_model: str) -> dict[str, ModelProfile]:
    """The cards of the first model of each role and stage; unknown models are left out."""
    found: dict[str, ModelProfile] = {}
    for name in models_of(spec, default_model):
        try:
            found[name] = await services.models().card(name)
        except PerdureError:
            continue
    return found
