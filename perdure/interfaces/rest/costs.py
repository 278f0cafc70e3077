"""What all runs spent in a period, by day, kind, label or model; as JSON or CSV."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from perdure.domain.budget.ledger import SpendKey
from perdure.interfaces.rest.auth import Reader, Site
from perdure.interfaces.rest.error_responses import invalid
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.spending import Spending, csv_name, csv_text, period_of, spending

CSV = "text/csv"
router = APIRouter(tags=["costs"], route_class=BoundedRoute)


@router.get(
    "/api/v1/costs",
    response_model=Spending,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
)
async def read_costs(
    site: Site,
    _: Reader,
    by: Annotated[SpendKey, Query(description="What the lines of the table are.")] = "day",
    since: Annotated[
        date | None, Query(description="The first day, in UTC; without it, 29 days before `until`.")
    ] = None,
    until: Annotated[
        date | None, Query(description="The last day, in UTC; without it, today.")
    ] = None,
    accept: Annotated[str, Header(max_length=400, description=f"`{CSV}` for a file.")] = "",
) -> Spending | Response:
    """The spend of all runs in a period, and the prompt tokens that they saved.

    Kind and label are those of the run that somebody started: what runs below it spent counts as
    its own. A line without a name holds runs without a label, and runs that were deleted.
    """
    try:
        period = period_of(since, until, today=site.now().date())
    except ValueError as error:
        raise invalid("query.since", f"is not before `until`: {error}") from None
    found = await spending(site.services.ledger(), by, period)
    if CSV not in accept:
        return found
    named = {"content-disposition": f'attachment; filename="{csv_name(found)}"'}
    return Response(csv_text(found), media_type=CSV, headers=named)
