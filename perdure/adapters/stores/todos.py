"""Todos in the database."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.scope_rows import LOCK, columns_of, fields_of, require_room, within
from perdure.adapters.stores.tables import todos
from perdure.domain.projects.records import Todo, TodoCounts, TodoStatus
from perdure.domain.projects.scope import Reach


class SqlTodos:
    """`TodoStore` over one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_todo(self, todo: Todo, *, limit: int | None = None) -> Todo:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _todo(connection, todo.id)
            if known is not None:
                return known
            await require_room(connection, todos, todo.belongs, limit=limit, what="todos")
            new = todo.model_copy(update={"order": await _next_position(connection, todo)})
            row = {**columns_of(new), "position": new.order, "written_by": new.by}
            await connection.execute(self._database.insert(todos).values(row))
            return new

    async def todos(self, *, reach: Reach, status: TodoStatus | None = None) -> Sequence[Todo]:
        query = select(todos).where(within(todos, reach))
        if status is not None:
            query = query.where(todos.c.status == status)
        ordered = query.order_by(todos.c.position, todos.c.created_at, todos.c.id)
        async with self._database.read() as connection:
            return [_read(row) for row in (await connection.execute(ordered)).mappings()]

    async def change_todo(
        self,
        todo: str,
        *,
        reach: Reach,
        at: datetime,
        status: TodoStatus | None = None,
        text: str | None = None,
        order: int | None = None,
    ) -> Todo | None:
        given = {"status": status, "text": text, "position": order}
        changes = {name: value for name, value in given.items() if value is not None}
        meant = (todos.c.id == todo) & within(todos, reach)
        change = update(todos).where(meant).values(**changes, changed_at=at)
        async with self._database.write() as connection:
            changed = await connection.execute(change)
            return await _todo(connection, todo) if changed.rowcount else None

    async def count_todos(self, *, reach: Reach) -> TodoCounts:
        query = select(todos.c.status, func.count()).where(within(todos, reach))
        async with self._database.read() as connection:
            counted = (await connection.execute(query.group_by(todos.c.status))).all()
        return TodoCounts.model_validate({str(status): count for status, count in counted})


async def _todo(connection: AsyncConnection, todo: str) -> Todo | None:
    row = (await connection.execute(select(todos).where(todos.c.id == todo))).mappings().first()
    return None if row is None else _read(row)


def _read(row: RowMapping) -> Todo:
    fields = fields_of(row)
    order, by = fields.pop("position"), fields.pop("written_by")
    return Todo.model_validate({**fields, "order": order, "by": by})


async def _next_position(connection: AsyncConnection, todo: Todo) -> int:
    own = (todos.c.scope == todo.belongs.scope) & (todos.c.owner == todo.belongs.owner)
    last = await connection.scalar(select(func.max(todos.c.position)).where(own))
    return 1 if last is None else int(last) + 1
