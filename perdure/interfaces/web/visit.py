"""What every view is given: the visitor, the API in the visitor's name, and ways to answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData
from starlette.types import ASGIApp

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.installation.access import ApiToken, Scope
from perdure.interfaces.rest.callers import site_of
from perdure.interfaces.rest.schemas import Gates
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.api_calls import DEFECT, Api, ApiProblem, Shape
from perdure.interfaces.web.rendering import LINE_END, rendered
from perdure.interfaces.web.session import Session
from perdure.interfaces.web.shared import Shared

VISITOR = "perdure_visitor"
SEE_OTHER = 303
REFUSED, CONFLICT = 400, 409
UNSURE = "unsure"
WRITTEN = "written"
# The longest wait for what scripts can load later.
BESIDE_S = 1.0
# Beyond it the navigation says `100+`: more would be read only to be counted.
MOST_COUNTED = 100
KEY_CHARACTERS = 80

# What the page itself puts into its forms.
_OURS = frozenset(
    {
        "form_key",
        "here",
        "args_hash",
        "choice",
        "scores",
        "once",
        "key",
        UNSURE,
        "gate",
        "run",
        "mode",
        "asked",
    }
)
# Secrets are never sent back.
_TOKEN_FIELDS = frozenset({"token", "ticket"})
_LABELS = {"text": "your words"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A person who signed in.

    Args:
        token: the token that the session stands for.
        form_key: the key in the session's forms.
        session: the sign-in.
    """

    token: ApiToken
    form_key: str
    session: Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of a visitor.

    Args:
        request: the request.
        site: the installation.
        visitor: who asks.
        api: the REST API in the visitor's name.
        open_gates: the open questions, for the navigation of a whole page; None if not read.
    """

    request: Request
    site: ApiSite
    visitor: Visitor
    api: Api
    open_gates: Gates | None = None

    def can(self, scope: Scope) -> bool:
        """Whether the visitor's token has a scope; this only hides buttons, the API refuses."""
        return scope in self.visitor.token.grants

    async def holds(self) -> bool:
        """Whether the session still holds with the same permissions; for long streams.

        While the store is away nobody knows: the stream ends, and the browser asks for another one.
        """
        try:
            access, now = self.site.services.access, self.site.now()
            token = await self.visitor.session.holder(access, now=now)
        except StoreAway:
            return False
        # The watch is shared by those who may see the same, so other permissions need another one.
        return token is not None and token.sight == self.visitor.token.sight

    async def shared(
        self, asked: str, make: Callable[[], Awaitable[Shape]], shape: type[Shape]
    ) -> Shape:
        """A recent answer made for a visitor with the same permissions; otherwise a new one.

        Args:
            asked: what it is about.
            make: reads it from the API.
            shape: its type.
        """
        answers: Shared[object] = self.request.app.state.shared
        found = await answers.get((asked, self.visitor.token.sight), make)
        assert isinstance(found, shape)
        return found

    async def waiting(self) -> Gates:
        """The open questions, up to the number that is counted."""
        return await self.api.get("/gates", Gates, {"limit": MOST_COUNTED})

    @property
    def wants_part(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return self.request.headers.get("hx-request") == "true"

    def page(self, template: str, *, status_code: int = 200, **given: object) -> HTMLResponse:
        """Fill a template with a view's values and those that every page needs."""
        body = rendered(
            template,
            self.site.now(),
            visitor=self.visitor.token,
            can=self.can,
            form_key=self.visitor.form_key,
            path=self.request.url.path,
            not_taken=status_code >= REFUSED,
            written=getattr(self.request.state, WRITTEN, ()) if status_code >= REFUSED else (),
            **{"open_gates": self.open_gates, **given},
        )
        return HTMLResponse(body, status_code=status_code)

    def go(self, path: str) -> Response:
        """Redirect after a form was accepted."""
        return RedirectResponse(path, status_code=SEE_OTHER)


def api_of(request: Request) -> ASGIApp:
    """The REST application below the pages."""
    app: ASGIApp = request.app.state.api
    return app


def visit_of(request: Request) -> Visit:
    """The visit of a request; `Entrance` has admitted the visitor before."""
    visitor = request.scope[VISITOR]
    assert isinstance(visitor, Visitor)
    return Visit(
        request=request,
        site=site_of(request),
        visitor=visitor,
        api=Api(api_of(request), visitor.token),
    )


async def page_visit_of(request: Request) -> Visit:
    """The visit with the open questions for the navigation, if they can be read quickly."""
    visit = visit_of(request)
    if request.method != "GET" or visit.wants_part:
        return visit
    try:
        return replace(visit, open_gates=await asyncio.wait_for(visit.waiting(), BESIDE_S))
    except (ApiProblem, TimeoutError):
        return visit  # the page's script asks again, and shows why they cannot be read


Here = Annotated[Visit, Depends(page_visit_of)]
# The level of the first headings of a part, which depends on the page that it goes into.
HeadingLevel = Annotated[int, Query(ge=2, le=4)]


def run_path(run: str, *more: str) -> str:
    """The address of a run's page, or of a page below it."""
    return "/" + "/".join(("runs", *(quote(part, safe="") for part in (run, *more))))


async def form_of(request: Request) -> FormData:
    """The form of a request; one field may fill the whole of it, as the body has its own limit."""
    return await request.form(max_part_size=site_of(request).rules.body_bytes)


async def fields_of(request: Request) -> Mapping[str, str]:
    """The text fields of a form; of equal names the last one."""
    fields = texts_of(await form_of(request))
    # For the page of a refusal, which is made elsewhere.
    setattr(request.state, WRITTEN, written(fields))
    return fields


Fields = Annotated[Mapping[str, str], Depends(fields_of)]


def texts_of(form: FormData) -> dict[str, str]:
    """The text fields of a form as they were typed: browsers send each end of a line as CRLF."""
    return {
        name: LINE_END.sub("\n", value) for name, value in form.items() if isinstance(value, str)
    }


def once_of(fields: Mapping[str, str]) -> dict[str, str]:
    """What makes a form that is sent twice, as by a double tap, have one effect.

    A form says in `once` what it was made for: a key of its own, or the last event of its run.
    """
    given = fields.get("once", "")[:KEY_CHARACTERS]
    # Whatever a form sends goes into a header here.
    return {"idempotency-key": f"page {given}"} if given.isascii() and given.isalnum() else {}


def kept_key(
    fields: Mapping[str, str], problem: ApiProblem | None = None, *, name: str = "key"
) -> str:
    """The key that a form sent, while nobody knows whether its start began; empty otherwise.

    A start without an answer may have begun: with the same key it is found, with a new one another
    begins. A conflict shows that the key is of another start.
    """
    failed = problem is not None and problem.status >= DEFECT
    known = problem is not None and problem.status == CONFLICT
    return fields.get(name, "") if (failed or UNSURE in fields) and not known else ""


@dataclass(frozen=True, slots=True)
class Written:
    """One field as it was filled in."""

    name: str
    text: str


def written(fields: Mapping[str, str]) -> tuple[Written, ...]:
    """The fields that a person filled in, in the order of the form."""
    return tuple(
        Written(_LABELS.get(name, name.rpartition(":")[2]), text)
        for name, text in fields.items()
        if text.strip() and name not in _OURS | _TOKEN_FIELDS
    )
