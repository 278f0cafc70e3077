"""Forks: a new run from an iteration of another, with changed settings."""

import asyncio

import yaml
from fastapi import APIRouter, Request, Response
from pydantic import JsonValue

from perdure.interfaces.rest.callers import Operator, Site, known_run
from perdure.interfaces.rest.idempotent_start import Starts, waiting
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import (
    PREFIX,
    StartKey,
    claim_of,
    digest_of_body,
    require_same,
    started,
)
from perdure.interfaces.rest.schemas import ForkBody, Started
from perdure.interfaces.rest.scopes import require_trust
from perdure.submission.loading import revise, store
from perdure.submission.types import Flags

router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["steer"], route_class=BoundedRoute)


@router.post(
    "/fork",
    status_code=201,
    responses={200: {"model": Started, "description": "The run that this key started before."}},
)
async def fork(
    request: Request,
    site: Site,
    caller: Operator,
    run: str,
    body: ForkBody,
    response: Response,
    idempotency_key: StartKey = None,
) -> Started:
    """Start a new run that goes on from an iteration of this one, on an account of its own."""
    row, gateway = await known_run(site, run), site.services.gateway
    # With the run in it: the same changes to another run are another request.
    told: dict[str, JsonValue] = {"kind": row.kind, "fork": run, **body.model_dump(mode="json")}
    starts: Starts = request.app.state.starts
    if begun := await starts.find_begun_run(caller.token.id, idempotency_key, digest_of_body(told)):
        return await started(site, response, begun, known=True)
    parent = await gateway.fork_spec(run, body.iteration)
    # Aside, since its values are written and read as YAML, which takes seconds for a megabyte.
    submission = await asyncio.to_thread(
        lambda: revise(
            parent,
            _flags(body),
            surroundings=site.surroundings,
            goal=body.goal,
            label=body.label,
        )
    )
    spec = submission.spec
    # All of it, not only the changes: the caller is responsible for everything that the fork runs.
    await require_trust(site, caller, spec.model_dump(mode="json", by_alias=True))
    wanted = claim_of(site, caller, told, idempotency_key, spec.goal)
    async with starts.join_start(wanted) as claimed:
        require_same(claimed.claim, wanted)
        stored = await store(submission, site.services.blobs)
        fork_id = await gateway.fork(
            run,
            body.iteration,
            stored,
            run_id=claimed.claim.run,
            by=caller.name,
            wanted=waiting(request),
        )
        known = claimed.mark_started()
    return await started(site, response, fork_id, known=known, notes=submission.notes)


def _flags(body: ForkBody) -> Flags:
    return Flags(
        iterate=body.max_iterations,
        quality=body.quality,
        budget=body.budget,
        model=body.model,
        sets=tuple(f"{path}={_as_yaml(value)}" for path, value in body.set.items()),
    )


def _as_yaml(value: JsonValue) -> str:
    """A value as the `--set` flag takes it, where the `1e-05` of JSON would be a text."""
    # Behind a plain value stands the mark of the end, which a refusal would show.
    return yaml.safe_dump(value).removesuffix("...\n").rstrip("\n")
