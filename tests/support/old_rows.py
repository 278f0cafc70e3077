"""Rows of runs as earlier versions of the schema have them."""

from sqlalchemy import insert

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import runs
from perdure.domain.run.status import StoredRun


async def put_as_before(database: Database, run: StoredRun) -> None:
    """Add the row of a run, without the columns that the table does not have yet."""
    async with database.write() as connection:
        known = (await connection.exec_driver_sql("SELECT * FROM runs LIMIT 0")).keys()
        row = {name: value for name, value in run.model_dump().items() if name in known}
        await connection.execute(insert(runs).values(row))
