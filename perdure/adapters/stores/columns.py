"""Column types of the stores' tables."""

from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import Column, Dialect, Integer, MetaData, Text, TypeDecorator
from sqlalchemy.schema import SchemaItem

from perdure.adapters.stores.encryption import Content

metadata = MetaData()


class Money(TypeDecorator[Decimal]):
    """An exact decimal kept as text, since SQLite would round it to a float."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


class UtcTime(TypeDecorator[datetime]):
    """An aware time, kept as text of fixed width so that the order of texts is that of times."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(timespec="microseconds")  # or zeros are left out

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


def key(name: str, kind: type[Text | Integer] = Text) -> SchemaItem:
    return Column(name, kind, primary_key=True)


def texts(*names: str) -> list[SchemaItem]:
    return [Column(name, Text) for name in names]


def contents(table: str, *names: str) -> list[SchemaItem]:
    """Columns that are encrypted if the installation has a key."""
    return [Column(name, Content(f"{table}.{name}")) for name in names]


def times(*names: str) -> list[SchemaItem]:
    return [Column(name, UtcTime) for name in names]
