"""The tables of the stores as SQLAlchemy sees them; `schema/` is what creates them."""

from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

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
    """An aware time kept as text of one width, so that text order is time order."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


attempts = Table(
    "attempts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    # An attempt number that comes back after it was closed opens a further row: nothing that was
    # booked is written over.
    Column("opening", Integer, primary_key=True),
    Column("execution", Text),
    Column("root", Text),
    Column("run", Text),
    Column("phase", Text),
    Column("role", Text),
    Column("iteration", Integer),
    Column("model", Text),
    Column("request_hash", Text),
    Column("state", Text),
    Column("usage", Text),
    Column("cost_usd", Money),
    Column("estimate", Text),
    Column("estimate_cost_usd", Money),
    Column("at_estimate", Boolean),
    Column("settled", Boolean),
    Column("started_at", UtcTime),
    Column("seconds", Double),
)

replies = Table(
    "replies",
    metadata,
    Column("key", Text, primary_key=True),
    Column("attempt", Integer),
    Column("opening", Integer),
    Column("request_hash", Text),
    Column("reply", Text),
)

seals = Table(
    "seals", metadata, Column("execution", Text, primary_key=True), Column("sealed_at", UtcTime)
)

tree_seals = Table(
    "tree_seals",
    metadata,
    Column("root", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("sealed_at", UtcTime),
)

installation = Table(
    "installation", metadata, Column("slot", Integer, primary_key=True), Column("id", Text)
)

workspaces = Table(
    "workspaces", metadata, Column("id", Text, primary_key=True), Column("path", Text)
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text),
    Column("goal", Text),
    Column("label", Text),
    Column("lifecycle", Text),
    Column("outcome", Text),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("result", Text),
    Column("status", Text),
    Column("spec", Text),
    Column("state", Text),
    Column("parent", Text),
)

iterations = Table(
    "iterations",
    metadata,
    Column("run", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("record", Text),
)

script_entries = Table(
    "script_entries",
    metadata,
    Column("run", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("entry", Integer, primary_key=True),
    Column("taken_at", UtcTime),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("reply", Text),
    Column("written_at", UtcTime),
)

live_texts = Table(
    "live_texts",
    metadata,
    Column("run", Text, primary_key=True),
    Column("key", Text),
    Column("attempt", Integer),
    Column("text", Text),
)

blobs = Table(
    "blobs",
    metadata,
    Column("address", Text, primary_key=True),
    Column("content", LargeBinary),
    Column("written_at", UtcTime),
)

memory = Table(
    "memory",
    metadata,
    Column("number", BigInteger, primary_key=True),
    Column("id", Text),
    Column("kind", Text),
    # Each category on a line of its own, so that one of many can be looked for.
    Column("categories", Text),
    Column("name", Text),
    Column("learned", Boolean),
    Column("created", UtcTime),
    Column("fades_at", UtcTime),
    Column("terms", Text),
    Column("length", Integer),
    Column("entry", Text),
)

memory_uses = Table(
    "memory_uses",
    metadata,
    Column("run", Text, primary_key=True),
    Column("entry", Text, primary_key=True),
    Column("used_at", UtcTime),
    Column("accepted", Boolean),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("scopes", Text),
    Column("digest", Text),
    Column("created_at", UtcTime),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
)

api_starts = Table(
    "api_starts",
    metadata,
    Column("run", Text, primary_key=True),
    Column("token", Text),
    Column("key", Text),
    Column("body_hash", Text),
    Column("at", UtcTime),
)

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("slot", Integer, primary_key=True),
    Column("key", LargeBinary),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("title", Text),
    Column("state", Text),
    Column("created_at", UtcTime),
    Column("closed_at", UtcTime),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("slug", Text),
    Column("goal", Text),
    Column("created_at", UtcTime),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("scope", Text),
    Column("owner", Text),
    Column("run", Text),
    Column("iteration", BigInteger),
    Column("stage", Text),
    Column("kind", Text),
    Column("name", Text),
    Column("media_type", Text),
    Column("ref", Text),
    Column("bytes", BigInteger),
    Column("created_at", UtcTime),
)

todos = Table(
    "todos",
    metadata,
    Column("id", Text, primary_key=True),
    Column("scope", Text),
    Column("owner", Text),
    Column("run", Text),
    Column("text", Text),
    Column("status", Text),
    Column("position", BigInteger),
    Column("written_by", Text),
    Column("created_at", UtcTime),
    Column("changed_at", UtcTime),
)

sprints = Table(
    "sprints",
    metadata,
    Column("run", Text, primary_key=True),
    Column("iteration", BigInteger, primary_key=True),
    Column("project", Text),
    Column("goal", Text),
    Column("note", Text),
    Column("changed_at", UtcTime),
)

made_tools = Table(
    "made_tools",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("name", Text),
    Column("state", Text),
    Column("made_at", UtcTime),
    Column("tool", Text),
)

made_tool_makers = Table(
    "made_tool_makers",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("run", Text, primary_key=True),
    Column("root", Text),
    Column("worker", Text),
    Column("made_at", UtcTime),
)
