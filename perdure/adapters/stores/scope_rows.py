"""What artifacts and todos share as rows: a scope, its owner, and a limit to how many there are."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, RowMapping, Table, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.projects.records import Artifact, Membership, Todo
from perdure.domain.projects.scope import Reach

LOCK = "perdure notes"


def within(table: Table, reach: Reach) -> ColumnElement[bool]:
    """The condition that a row is within reach."""
    return or_(*(_of(table, belonging) for belonging in reach.belongings))


def columns_of(thing: Artifact | Todo) -> dict[str, object]:
    """The fields that both kinds of row keep under the same name."""
    kept = thing.model_dump(exclude={"belongs", "order", "by"})
    return {**kept, "scope": thing.belongs.scope, "owner": thing.belongs.owner}


def fields_of(row: RowMapping) -> dict[str, object]:
    """A row's columns as fields, with scope and owner as what it belongs to."""
    fields: Mapping[str, object] = dict(row)
    belongs = {"scope": fields["scope"], "owner": fields["owner"]}
    kept = {name: value for name, value in fields.items() if name not in belongs}
    return {**kept, "belongs": belongs}


async def require_room(
    connection: AsyncConnection,
    table: Table,
    belonging: Membership,
    *,
    limit: int | None,
    what: str,
) -> None:
    """Raise `NotAllowed` when a scope holds as many rows as it may."""
    if limit is None:
        return
    held = await connection.scalar(
        select(func.count()).select_from(table).where(_of(table, belonging))
    )
    if (held or 0) >= limit:
        raise NotAllowed(
            f"The {belonging.scope} {belonging.owner} holds {held} {what}; {limit} are allowed.",
            cure="Use what is there instead of adding more.",
        )


def _of(table: Table, belonging: Membership) -> ColumnElement[bool]:
    return and_(table.c.scope == belonging.scope, table.c.owner == belonging.owner)
