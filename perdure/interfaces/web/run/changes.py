"""Changing an open run, and forking one from an iteration."""

import json
import uuid
from collections.abc import Mapping

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.run.status import RunStatus
from perdure.interfaces.rest.schemas import Started
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.run.routes import run_page, send_verb
from perdure.interfaces.web.visit import (
    WRITTEN,
    Fields,
    Here,
    Visit,
    kept_key,
    once_of,
    run_path,
    written,
)

LIMITS = ("cost_usd", "tokens", "active_time")
FORBIDDEN, NOT_FOUND, INVALID = 403, 404, 422
router = APIRouter()


@router.post("/runs/{run}/amend")
async def amend(visit: Here, fields: Fields, run: str) -> Response:
    """Change limits or give guidance; empty fields change nothing."""
    body: dict[str, JsonValue] = {}
    if budget := budget_of(fields):
        body["budget"] = budget
    if guidance := fields.get("guidance"):
        body["guidance"] = guidance
    taken = ""
    if limit := fields.get("max_iterations", "").strip():
        try:
            # On its own, and first: it is an edit of the task, which `amend` does not take.
            # Refused, it leaves the rest of the form undone.
            await visit.api.patch(at("loops", run), RunStatus, {"max_iterations": plain(limit)})
        except ApiProblem as problem:
            if problem.status in {FORBIDDEN, NOT_FOUND}:
                raise
            return await run_page(visit, run, problem=problem)
        if not body:
            return visit.go(run_path(run))
        not_taken = {name: text for name, text in fields.items() if name != "max_iterations"}
        setattr(visit.request.state, WRITTEN, written(not_taken))
        taken = f"The limit of {limit} iterations was taken all the same."
    # An empty form is sent as well: the API says what it may hold.
    return await send_verb(
        visit, run, "amend", body or {"guidance": None}, once=once_of(fields), taken=taken
    )


@router.get("/runs/{run}/iterations/{index}/fork")
async def fork_form(visit: Here, run: str, index: int) -> Response:
    """Show the form for the fork's own settings."""
    return await _form(visit, run, index, fields={})


@router.post("/runs/{run}/iterations/{index}/fork")
async def fork(visit: Here, fields: Fields, run: str, index: int) -> Response:
    """Start the fork once and show it; a refusal is shown above the form with its values."""
    try:
        body = fork_body(fields, index)
        once = {"idempotency-key": fields.get("key") or uuid.uuid4().hex}
        started = await visit.api.post(f"{at('loops', run)}/fork", Started, body, once)
    except ApiProblem as problem:
        return await _form(visit, run, index, fields=fields, problem=problem)
    return visit.go(run_path(started.id))


async def _form(
    visit: Visit,
    run: str,
    index: int,
    *,
    fields: Mapping[str, str],
    problem: ApiProblem | None = None,
) -> Response:
    status = await visit.api.get(at("loops", run), RunStatus)
    key = kept_key(fields, problem)
    return visit.page(
        "run/fork.html",
        status_code=problem.status if problem else 200,
        status=status,
        index=index,
        key=key or uuid.uuid4().hex,
        unsure=bool(key),
        given=fields,
        found=problem,
    )


def fork_body(fields: Mapping[str, str], iteration: int) -> dict[str, JsonValue]:
    """The request body for a fork; empty fields keep the value of the other run.

    Raises:
        ApiProblem: a line of the other settings has no `=`.
    """
    body: dict[str, JsonValue] = {"iteration": iteration}
    body |= {name: fields[name] for name in ("goal", "model", "label") if fields.get(name)}
    for name in ("max_iterations", "quality"):
        if value := fields.get(name, "").strip():
            body[name] = plain(value)
    if budget := budget_of(fields):
        body["budget"] = budget
    if settings := settings_of(fields.get("set", "")):
        body["set"] = settings
    return body


def budget_of(fields: Mapping[str, str]) -> dict[str, JsonValue]:
    """The limits filled in on a form."""
    return {name: plain(value) for name in LIMITS if (value := fields.get(name, "").strip())}


def settings_of(text: str) -> dict[str, JsonValue]:
    """Lines `path=value` as a mapping."""
    found: dict[str, JsonValue] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        path, sign, value = line.partition("=")
        if not sign or not path.strip():
            told = f"Other settings: found {line[:80]!r}; allowed: path=value, one a line."
            raise ApiProblem(INVALID, "invalid_input", told, "For example: refine.patience=3")
        found[path.strip()] = plain(value.strip())
    return found


def plain(text: str) -> JsonValue:
    """The text as JSON if it is valid JSON; otherwise unchanged."""
    try:
        # NaN and Infinity stay words: no JSON can carry them.
        value: JsonValue = json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text
    return value
