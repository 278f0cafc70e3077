"""The inbox: open questions over all runs, oldest first, with the thing to decide in view."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.installation.access import ApiToken
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Receipt
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate
from perdure.interfaces.rest.callers import Caller
from perdure.interfaces.rest.schemas import Gates
from perdure.interfaces.web.api_calls import Api, ApiProblem, at
from perdure.interfaces.web.inbox.cards import LIMITS, cards_of, groups_of, scores_text
from perdure.interfaces.web.visit import Fields, Here, form_of

INBOX = "/inbox"
PAGE = 30
NO_CONTENT = 204
LATE = frozenset({404, 409})
DEADLINE = "deadline"
ASKED_ANEW = "asked_anew"
KEY_CHARACTERS = 80
router = APIRouter()


@router.get("/")
async def first(visit: Here) -> Response:
    """Redirect to the inbox if a question waits, else to the runs."""
    found = await visit.api.get("/gates", Gates, {"limit": 1})
    return visit.go("/inbox" if found.items else "/runs")


@router.get("/inbox")
async def show(request: Request, visit: Here, cursor: str | None = None) -> Response:
    """Show the open questions; a script gets only the cards, and 204 if nothing changed."""
    found = await visit.api.get("/gates", Gates, {"limit": PAGE, "cursor": cursor})
    seen = seen_of(found)
    # Before the cards are made: each takes further requests, and an open inbox asks every 2 s.
    if visit.wants_part and request.query_params.get("seen") == seen:
        return Response(status_code=NO_CONTENT)
    cards = await cards_of(visit.api, found.items, now=visit.site.now())
    template = "inbox/cards.html" if visit.wants_part else "inbox/inbox.html"
    return visit.page(
        template,
        cards=cards,
        groups=groups_of(cards),
        unread=found.unread,
        reasons=found.reasons,
        gone=await _gone(visit.api, request.query_params.getlist("had"), found.items),
        cursor=found.cursor,
        now_at=cursor,
        seen=seen,
        part=visit.wants_part,
    )


@router.get("/inbox/count")
async def count(visit: Here) -> Response:
    """The number of open questions for the navigation; every open tab polls it."""
    found = await visit.shared("gates", visit.waiting, Gates)
    return visit.page("inbox/count.html", open_gates=found)


@router.post("/inbox/alike")
async def several(request: Request, visit: Here, fields: Fields) -> Response:
    """Send one answer to several questions, and report each refusal."""
    # Not `fields`, which keeps the last of equal names.
    form = await form_of(request)
    chosen = [one for one in form.getlist("gate") if isinstance(one, str)]
    refused: dict[str, str] = {}
    for one in chosen:
        # A value that no page of ours wrote may be short; the API refuses what is missing.
        run, name, hash, asked = (*one.split(" "), "", "", "")[:4]
        body = _told(fields, args_hash=hash)
        try:
            await _require_still_asked(visit.api, run, name, asked)
            once = _once(name, asked)
            await visit.api.post(f"{at('loops', run, 'gates', name)}/answer", Receipt, body, once)
        except ApiProblem as problem:
            became = await _became(visit.api, run, name) if problem.status in LATE else None
            if not _is_repeat(problem, became, visit.visitor.token, fields):
                refused[f"{run} {name}"] = problem.detail
    if chosen and not refused:
        return visit.go(_inbox([" ".join(one.split(" ")[:2]) for one in chosen]))
    return visit.page("inbox/several.html", taken=len(chosen) - len(refused), refused=refused)


@router.post("/runs/{run}/gates/{gate}/answer")
async def answer(visit: Here, fields: Fields, run: str, gate: str) -> Response:
    """Send an answer; if somebody else answered first, say who.

    The same answer of the same person, as from a double tap, is one.
    """
    names = fields.get("scores", "").split("\n") if fields.get("scores") else []
    given = dict(fields)
    if names:
        given["text"] = scores_text(fields, names)
    raises = fields.get("choice") == "raise" and bool(raised(fields))
    amended, asked = False, fields.get("asked", "")
    try:
        # Before anything changes: no limit is raised for a question that waits no longer.
        await _require_still_asked(visit.api, run, gate, asked)
        if raises:
            await _raise(visit.api, run, fields)
            amended = True
        body, once = _told(given, args_hash=fields.get("args_hash", "")), _once(gate, asked)
        await visit.api.post(f"{at('loops', run, 'gates', gate)}/answer", Receipt, body, once)
    except ApiProblem as problem:
        if problem.status not in LATE:
            raise
        became = await _became(visit.api, run, gate)
        if not _is_repeat(problem, became, visit.visitor.token, given):
            return visit.page(
                "inbox/late.html",
                status_code=problem.status,
                found=problem,
                run=run,
                became=became.words if became else "",
                amended=amended,
            )
    here = fields.get("here", INBOX)
    if here == INBOX:
        return visit.go(_inbox([f"{run} {gate}"]))
    return visit.go(f"{here}?{urlencode({'answered': gate})}")


async def _require_still_asked(api: Api, run: str, gate: str, asked: str) -> None:
    """Refuse an answer to what is not asked any more; a run that was reset asks anew by old names.

    Raises:
        ApiProblem: it no longer waits, or was asked anew since its card was made.
    """
    found = await api.get(at("loops", run, "gates", gate), Gate)
    if asked and found.opened_at.isoformat() != asked:
        told = f"The question {found.name} was asked anew since this page showed it."
        raise ApiProblem(409, ASKED_ANEW, told, "Look at it again, then answer.")


def _once(gate: str, asked: str) -> dict[str, str]:
    """What makes an answer that is sent twice one."""
    # Both come from outside, and a header takes ASCII alone.
    named = quote(f"{gate} {asked}", safe="")
    return {"idempotency-key": f"page {named[:KEY_CHARACTERS]}"}


def _inbox(had: Sequence[str]) -> str:
    """The address of the inbox that reports on questions it no longer shows."""
    return f"{INBOX}?{urlencode([('had', one) for one in had[:PAGE]])}"


def seen_of(found: Gates) -> str:
    """A short hash that changes with the list of questions."""
    unread = (f"{run} {found.reasons.get(run, '')}" for run in found.unread)
    told = "\n".join([*(f"{one.run} {one.gate.name}" for one in found.items), "", *unread])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def raised(fields: Mapping[str, str]) -> dict[str, JsonValue]:
    """The limits filled in on a form.

    Raises:
        ApiProblem: one is not a number.
    """
    found: dict[str, JsonValue] = {}
    for name, (_, whole) in LIMITS.items():
        text = fields.get(f"limit:{name}", "").strip()
        if not text:
            continue
        try:
            found[name] = int(text) if whole else float(text)
        except ValueError as error:
            told = f"{text[:40]!r} is no number for the limit {name}."
            raise ApiProblem(422, "invalid_input", told, "Write digits alone.") from error
    return found


async def _raise(api: Api, run: str, fields: Mapping[str, str]) -> None:
    """Raise the limits before answering: the answer itself gives the run no more budget."""
    limits = raised(fields)
    if limits:
        await api.post(f"{at('loops', run)}/amend", Receipt, {"budget": limits})


def _told(fields: Mapping[str, str], *, args_hash: str) -> dict[str, JsonValue]:
    body = {name: value for name in ("choice", "text") if (value := fields.get(name))}
    return {**body, "args_hash": args_hash} if args_hash else {**body}


async def _gone(api: Api, had: Sequence[str], found: Sequence[OpenGate]) -> tuple[str, ...]:
    """What became of questions that the page showed and that no longer wait, in sentences."""
    waiting = {f"{one.run} {one.gate.name}" for one in found}
    lines: list[str] = []
    # No page showed more, and each that is gone takes a request.
    for one in had[:PAGE]:
        run, _, name = one.partition(" ")
        if one in waiting or not name:
            continue
        try:
            status = await api.get(at("loops", run), RunStatus)
        except ApiProblem:
            continue
        became = _end_of(status, name)
        told = became.words if became else "no longer waits"
        lines.append(f"{name} of {status.goal[:80] or run}: {told}")
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class Became:
    """How a question ended: what was said by whom; nothing was said if its time was over."""

    said: str
    by: str

    @property
    def words(self) -> str:
        """For people, in a few words."""
        if not self.said and self.by == DEADLINE:
            return "nobody answered in time"
        return f"{self.said[:200] or 'closed'}, by {self.by}"

    def of(self, token: ApiToken, given: Mapping[str, str]) -> bool:
        """Whether it ended by this answer of this person."""
        # The event keeps no more of a text.
        said = given.get("choice") or given.get("text", "")[:200]
        return bool(said) and self.said == said and self.by == Caller(token).name


def _is_repeat(
    problem: ApiProblem, became: Became | None, token: ApiToken, given: Mapping[str, str]
) -> bool:
    """Whether an answer was refused only as this person gave the same one before."""
    return problem.title != ASKED_ANEW and became is not None and became.of(token, given)


async def _became(api: Api, run: str, gate: str) -> Became | None:
    try:
        return _end_of(await api.get(at("loops", run), RunStatus), gate)
    except ApiProblem:
        return None


def _end_of(status: RunStatus, gate: str) -> Became | None:
    # The newest, since a run that was reset uses the names of its questions again.
    for event in reversed(status.events):
        if event.type == "gate_answered" and event.data.get("gate") == gate:
            return Became(str(event.data.get("answer") or ""), str(event.data.get("by")))
    return None
