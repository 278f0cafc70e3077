"""The model calls of an iteration: prompt, reply and cost of each."""

from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.interfaces.model_calls import ModelCall
from perdure.interfaces.rest.schemas import ModelCalls
from perdure.interfaces.web.api_calls import at
from perdure.interfaces.web.run.prompt_parts import Part, prompt_parts, reply_parts
from perdure.interfaces.web.visit import HeadingLevel, Here

router = APIRouter()
AT_ONCE = 10


class ShownCall(NamedTuple):
    """A call with prompt and reply in parts; None if the store has none."""

    call: ModelCall
    prompt: tuple[Part, ...] | None
    reply: tuple[Part, ...] | None


@router.get("/runs/{run}/iterations/{index}/calls")
async def calls(
    visit: Here, run: str, index: int, cursor: str | None = None, level: HeadingLevel = 2
) -> Response:
    """Show the calls of one iteration, oldest first."""
    path = at("loops", run, "iterations", str(index), "calls")
    found = await visit.api.get(path, ModelCalls, {"limit": AT_ONCE, "cursor": cursor})
    return visit.page(
        "run/calls_part.html" if visit.wants_part else "run/calls.html",
        run=run,
        index=index,
        level=level,
        calls=[shown(one) for one in found.items],
        cursor=found.cursor,
    )


@router.get("/runs/{run}/iterations/{index}/attachments/{ref}")
async def attachment(visit: Here, run: str, index: int, ref: str) -> Response:
    """An image that a model was shown, or a PDF as a download."""
    return await visit.api.content(
        at("loops", run, "iterations", str(index), "attachments", ref),
        keep=("content-type", "content-disposition", "content-security-policy"),
    )


def shown(call: ModelCall) -> ShownCall:
    """Split a call into parts."""
    return ShownCall(
        call,
        None if call.prompt is None else prompt_parts(call.system, call.prompt),
        None if call.reply is None else reply_parts(call.reply),
    )
