"""Erasing a run: show what would go, and erase it after confirmation."""

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.retention.erasure import Erased
from perdure.interfaces.erasure_words import BOOKS_WORDS, SERVER_WORDS, erased_words
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.visit import Here, Visit, run_path

router = APIRouter()


@router.get("/runs/{run}/erase")
async def ask(visit: Here, run: str) -> Response:
    """Show what would be erased, with the button."""
    try:
        planned = await visit.api.get(at("loops", run, "erase"), Erased)
    except ApiProblem as problem:
        return _page(visit, run, problem=problem)
    return _page(visit, run, planned)


@router.post("/runs/{run}/erase")
async def erase(visit: Here, run: str) -> Response:
    """Erase the run and show what went."""
    try:
        done = await visit.api.post(at("loops", run, "erase"), Erased)
    except ApiProblem as problem:
        return _page(visit, run, problem=problem)
    return _page(visit, run, done, done=True)


def _page(
    visit: Visit,
    run: str,
    found: Erased | None = None,
    *,
    done: bool = False,
    problem: ApiProblem | None = None,
) -> Response:
    return visit.page(
        "run/erase.html",
        status_code=problem.status if problem else 200,
        run=run,
        address=run_path(run),
        lines=[] if found is None else erased_words(found),
        done=done,
        found=problem,
        server=SERVER_WORDS,
        books=BOOKS_WORDS,
    )
