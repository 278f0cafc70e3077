"""The collection of runs: list, count, start, look, edit, delete."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import JsonValue

from perdure.domain.evaluation.outcomes import Lifecycle, Outcome
from perdure.domain.foundation.errors import NotAllowed, PerdureError
from perdure.domain.foundation.names import SEARCH_ATTRIBUTE_LIMIT, LoopKind
from perdure.domain.installation.access import IdempotencyRecord
from perdure.domain.run.control import Phase
from perdure.domain.run.messages import NAME_CHARACTERS, VERB_OF, Amend, AnyMessage, Receipt
from perdure.domain.run.status import RunStatus
from perdure.gateway.error_mapping import unknown_run
from perdure.gateway.types import RunFilter, RunPage, RunRow
from perdure.interfaces.rest.callers import Caller, Operator, Reader, Site, known_run
from perdure.interfaces.rest.error_responses import Refused, WrongState, invalid
from perdure.interfaces.rest.idempotent_start import Starts, waiting
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute, Fields
from perdure.interfaces.rest.schemas import FRESH_NOTE, Count, PatchBody, RunId, Runs, Started
from perdure.interfaces.rest.scopes import trusted_submission
from perdure.interfaces.rest.settings import ApiSite
from perdure.submission.loading import store


def tag_of(value: JsonValue) -> str:
    """A strong entity tag for a value."""
    told = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'


def require_match(given: str | None, current: str) -> None:
    """Refuse a change based on an outdated state; without `If-Match` every change passes.

    Raises:
        Refused: `If-Match` names no current tag (409 `version_conflict`).
    """
    if given is None or given.strip() == "*":
        return
    named = {part.strip() for part in given.split(",")}
    if current not in named:
        raise Refused(
            409,
            "version_conflict",
            f"If-Match: found {given[:200]}; the run changed meanwhile and is at {current}.",
            cure="Read it again, and send the new ETag.",
            headers={"etag": current},
        )


REQUEST_DIGITS = 32
Key = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=NAME_CHARACTERS - 32,
        description="The same request with the same key has one effect, however often it comes. "
        "Another body or another action with that key is another request.",
    ),
]


async def steer(
    site: ApiSite, caller: Caller, run: str, message: AnyMessage, key: str | None
) -> Receipt:
    """Send one verb in the caller's name; a refusal names the run's state."""
    await known_run(site, run)
    # Without a key too: an update that is sent again, as its answer was lost, must have the same
    # id.
    request = request_id_of(caller.token.id, key, message) if key else uuid.uuid4().hex
    sent = message.model_copy(update={"by": caller.name, "request_id": request})
    try:
        return await site.services.gateway.verb(run, sent)
    except NotAllowed as error:
        raise WrongState(error.message, cure=error.cure, state=await _state(site, run)) from error


def request_id_of(token: str, key: str, message: AnyMessage) -> str:
    """The id under which a run knows a request with an idempotency key.

    Two tokens may use the same key independently. The id covers the request too: the server answers
    a known id with the earlier receipt, which would tell a caller that another request with that
    key was done.
    """
    told = [key, VERB_OF[type(message)], message.model_dump(mode="json")]
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return f"{token}:{hashlib.sha256(text.encode()).hexdigest()[:REQUEST_DIGITS]}"


async def _state(site: ApiSite, run: str) -> str | None:
    try:
        return (await site.services.gateway.status(run)).lifecycle
    except PerdureError:
        return None


# Words that fit no run would otherwise read all runs in one request; the cursor goes on from here.
PAGES_SEARCHED = 10
PREFIX = "/api/v1/loops"
KEY_CHARACTERS = 255
router = APIRouter(prefix=PREFIX, tags=["loops"], route_class=BoundedRoute)

Word = Annotated[str | None, Query(max_length=200)]
# As long as the server keeps one.
LabelWord = Annotated[str | None, Query(max_length=SEARCH_ATTRIBUTE_LIMIT)]
StartKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=KEY_CHARACTERS,
        description="The same key with the same body starts one run; with another body: 409.",
    ),
]


@router.get("")
async def list_runs(
    site: Site,
    caller: Reader,
    status: Annotated[Literal[Lifecycle, "cancelled"] | None, Query()] = None,
    kind: Annotated[LoopKind | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    phase: Annotated[Phase | None, Query()] = None,
    definition: Word = None,
    root: RunId = None,
    label: LabelWord = None,
    text: Word = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Runs:
    """Runs, the newest first: root runs, or with `root` all of one tree.

    `text` looks for words in goals and ids. A page may be shorter than its limit.
    """
    if root is not None:
        await known_run(site, root)
        if not await caller.sees(site, root):
            raise unknown_run(root)
    wanted = RunFilter(
        status=status, kind=kind, label=label, outcome=outcome, phase=phase, root=root, limit=limit
    )
    pages = await cursors(site, "loops", wanted.model_dump(mode="json"), definition, text)
    found = await _searched(
        site,
        caller,
        wanted.model_copy(update={"cursor": pages.read(cursor)}),
        definition=definition,
        text=text,
    )
    return Runs(items=found.runs, cursor=pages.made(found.cursor), note=found.note or FRESH_NOTE)


@router.get("/active/count")
async def count_running(site: Site, _: Reader) -> Count:
    """How many runs are running, those that are paused or wait not counted."""
    return Count(count=await site.services.gateway.count(RunFilter(status="running")))


@router.post(
    "",
    status_code=201,
    responses={200: {"model": Started, "description": "The run that this key started before."}},
)
async def start(
    request: Request,
    site: Site,
    caller: Operator,
    response: Response,
    spec: Fields,
    idempotency_key: StartKey = None,
) -> Started:
    """Start a run from a specification, as in a task file; files are not read over REST."""
    starts: Starts = request.app.state.starts
    if begun := await starts.find_begun_run(caller.token.id, idempotency_key, digest_of_body(spec)):
        return await started(site, response, begun, known=True)
    submission = await trusted_submission(site, caller, spec)
    wanted = claim_of(site, caller, spec, idempotency_key, submission.spec.goal)
    async with starts.join_start(wanted) as claimed:
        require_same(claimed.claim, wanted)
        stored = await store(submission, site.services.blobs)
        # The id in the claim, not the one made here: an earlier request with this key may have
        # started it.
        run = await site.services.gateway.start(
            stored, run_id=claimed.claim.run, by=caller.name, wanted=waiting(request)
        )
        known = claimed.mark_started()
    return await started(site, response, run, known=known, notes=submission.notes)


async def started(
    site: ApiSite, response: Response, run: str, *, known: bool, notes: tuple[str, ...] = ()
) -> Started:
    """The answer to a start or a fork; `known` if an earlier request began the run."""
    status = await site.services.gateway.status(run)
    response.headers["location"] = f"{PREFIX}/{run}"
    response.headers["etag"] = edit_tag(status)
    response.status_code = 200 if known else 201
    return Started(id=run, replayed=known, status=status, notes=notes)


@router.get("/{run}")
async def look(site: Site, _: Reader, run: str, response: Response) -> RunStatus:
    """One look at a run; the `ETag` is of what `PATCH` may change."""
    await known_run(site, run)
    status = await site.services.gateway.status(run)
    response.headers["etag"] = edit_tag(status)
    return status


@router.patch("/{run}")
async def edit(
    site: Site,
    caller: Operator,
    run: str,
    body: PatchBody,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag that was read; another one now: 409.")
    ] = None,
) -> RunStatus:
    """Edit a run that goes on: goal, limit of iterations, label, metadata (merged deeply)."""
    await known_run(site, run)
    if if_match is not None:
        require_match(if_match, edit_tag(await site.services.gateway.status(run)))
    if not body.model_fields_set:
        raise invalid("body", "found nothing to change; allowed: goal, max_iterations, label, …")
    await steer(site, caller, run, _amendment(body), None)
    status = await site.services.gateway.status(run)
    response.headers["etag"] = edit_tag(status)
    return status


@router.delete("/{run}", status_code=204)
async def delete(
    site: Site, _: Operator, run: str, if_match: Annotated[str | None, Header()] = None
) -> None:
    """Drop an ended run and those below it from server and store; the journal keeps their spend."""
    await known_run(site, run)
    if if_match is not None:
        require_match(if_match, edit_tag(await site.services.gateway.status(run)))
    await site.services.gateway.delete(run)


def edit_tag(status: RunStatus) -> str:
    """The entity tag of the editable fields of a run."""
    return tag_of([status.id, status.goal, status.iteration_limit, status.label, status.metadata])


def _amendment(body: PatchBody) -> Amend:
    metadata = dict(body.metadata or {})
    # Sent as null it takes the label away; left out, the label stays.
    if "label" in body.model_fields_set:
        metadata["label"] = body.label
    return Amend(goal=body.goal, max_iterations=body.max_iterations, metadata=metadata or None)


async def _searched(
    site: ApiSite, caller: Caller, wanted: RunFilter, *, definition: str | None, text: str | None
) -> RunPage:
    """The first page from the cursor on that has a matching row; gives up after some pages."""
    words = (text or "").casefold().split()
    page = RunPage()
    for _ in range(PAGES_SEARCHED):
        page = await site.services.gateway.list(wanted)
        rows = [row for row in page.runs if _fits(row, definition, words)]
        ours = [row for row in rows if await caller.sees(site, row.id)]
        page = page.model_copy(update={"runs": tuple(ours)})
        if ours or page.cursor is None:
            break
        wanted = wanted.model_copy(update={"cursor": page.cursor})
    return page


def _fits(row: RunRow, definition: str | None, words: list[str]) -> bool:
    told = f"{row.goal} {row.id}".casefold()
    named = definition is None or row.definition == definition
    return named and all(word in told for word in words)


def claim_of(
    site: ApiSite, caller: Caller, spec: dict[str, JsonValue], key: str | None, goal: str
) -> IdempotencyRecord:
    """The claim of a start request: a new run id under the caller's key."""
    return IdempotencyRecord(
        run=site.services.gateway.fresh_id(str(spec.get("kind", "agent")), goal),
        token=caller.token.id,
        at=site.now(),
        key=key,
        body_hash=digest_of_body(spec),
    )


def digest_of_body(body: Mapping[str, JsonValue]) -> str:
    """The digest by which a request with a known key is compared with the first one."""
    told = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(told.encode()).hexdigest()


def require_same(claim: IdempotencyRecord, wanted: IdempotencyRecord) -> None:
    """Refuse a key that was used before with another body."""
    if claim.body_hash != wanted.body_hash:
        raise Refused(
            409,
            "idempotency_conflict",
            f"The idempotency key was used for the run {claim.run}, with another body.",
            cure="Send a new key for a new run, or the same body.",
        )
