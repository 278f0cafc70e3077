"""What all runs spent in a period, by day, kind, label, owner, model or run; as JSON or CSV."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from perdure.domain.budget.spend_report import SpendFilter, SpendKey
from perdure.interfaces.rest.callers import Reader, Site
from perdure.interfaces.rest.error_responses import invalid
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.spending import Spending, csv_name, csv_text, period_of, spending

CSV = "text/csv"
# A line of the table leads to its runs by its name, and labels may be long.
LONGEST_NAME = 4_000
router = APIRouter(tags=["costs"], route_class=BoundedRoute)

Model = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="Only calls of this model.")
]
Kind = Annotated[str | None, Query(max_length=200, description="Only runs of this kind.")]
Label = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="Only runs with this label.")
]
Owner = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="Only runs of this owner.")
]
Unowned = Annotated[bool, Query(description="Only runs of which no owner is known.")]
Unlabelled = Annotated[bool, Query(description="Only runs without a label.")]
UnknownKind = Annotated[
    bool, Query(description="Only runs of which no kind is known: learning and deleted ones.")
]


def asked_calls(
    model: Model = None,
    kind: Kind = None,
    label: Label = None,
    owner: Owner = None,
    unlabelled: Unlabelled = False,
    unknown_kind: UnknownKind = False,
    unowned: Unowned = False,
) -> SpendFilter:
    """Which calls a table holds."""
    return SpendFilter(
        model=model,
        kind=kind,
        label=label,
        owner=owner,
        unlabelled=unlabelled,
        unknown_kind=unknown_kind,
        unowned=unowned,
    )


@router.get(
    "/api/v1/costs",
    response_model=Spending,
    responses={200: {"content": {CSV: {"schema": {"type": "string"}}}}},
)
async def read_costs(
    site: Site,
    _: Reader,
    only: Annotated[SpendFilter, Depends(asked_calls)],
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

    Kind, label and run are those of the run that somebody started: what runs below it spent counts
    as its own. The owner is who started it, its experiment or its schedule, by the audit trail.
    What was learned from a run counts under its label and owner. A line without a name holds runs
    without a label or a known owner, and runs that were deleted.
    The runs behind a line are those `by=run` with its day or name: their lines add up to it.
    """
    try:
        period = period_of(since, until, today=site.now().date())
    except ValueError as error:
        raise invalid("query.since", f"is not before `until`: {error}") from None
    found = await spending(site.services.ledger(), by, period, only)
    if CSV not in accept:
        return found
    named = {"content-disposition": f'attachment; filename="{csv_name(found)}"'}
    return Response(csv_text(found), media_type=CSV, headers=named)
