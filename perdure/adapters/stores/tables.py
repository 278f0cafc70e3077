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
    """An aware time kept as text of one width, so that text order is time order."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


def _key(name: str, kind: type[Text | Integer] = Text) -> SchemaItem:
    """A column of the primary key."""
    return Column(name, kind, primary_key=True)


def _texts(*names: str) -> list[SchemaItem]:
    return [Column(name, Text) for name in names]


def _contents(table: str, *names: str) -> list[SchemaItem]:
    return [Column(name, Content(f"{table}.{name}")) for name in names]


def _times(*names: str) -> list[SchemaItem]:
    return [Column(name, UtcTime) for name in names]


attempts = Table(
    "attempts",
    metadata,
    _key("key"),
    _key("attempt", Integer),
    # An attempt number that comes back after it was closed opens a further row: nothing that was
    # booked is written over.
    _key("opening", Integer),
    *_texts("execution", "root", "run", "phase", "role"),
    Column("iteration", Integer),
    *_texts("model", "request_hash", "state", "usage"),
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
    _key("key"),
    Column("attempt", Integer),
    Column("opening", Integer),
    Column("request_hash", Text),
    *_contents("replies", "reply"),
)

run_savings = Table(
    "run_savings",
    metadata,
    _key("run"),
    Column("ended_at", UtcTime),
    Column("input_tokens", BigInteger),
    Column("naive_input_tokens", BigInteger),
)

seals = Table("seals", metadata, _key("execution"), Column("sealed_at", UtcTime))

tree_seals = Table(
    "tree_seals",
    metadata,
    _key("root"),
    _key("run"),
    Column("sealed_at", UtcTime),
)

installation = Table("installation", metadata, _key("slot", Integer), Column("id", Text))

workspaces = Table(
    "workspaces", metadata, _key("id"), Column("path", Text), Column("used_at", UtcTime)
)

runs = Table(
    "runs",
    metadata,
    _key("id"),
    Column("kind", Text),
    *_contents("runs", "goal", "label"),
    *_texts("lifecycle", "outcome"),
    *_times("started_at", "ended_at"),
    *_contents("runs", "result", "status"),
    *_texts("spec", "state", "parent", "digest", "start_key", "workspace"),
)

iterations = Table(
    "iterations",
    metadata,
    _key("run"),
    _key("position", Integer),
    *_contents("iterations", "record"),
)

script_entries = Table(
    "script_entries",
    metadata,
    _key("run"),
    _key("key"),
    _key("entry", Integer),
    Column("taken_at", UtcTime),
)

verdicts = Table(
    "verdicts",
    metadata,
    _key("key"),
    *_contents("verdicts", "reply"),
    Column("written_at", UtcTime),
)

live_texts = Table(
    "live_texts",
    metadata,
    _key("run"),
    _key("call"),
    *_texts("key"),
    Column("attempt", Integer),
    Column("iteration", Integer),
    *_texts("phase", "role", "worker", "model"),
    Column("start", BigInteger),
    *_contents("live_texts", "text"),
    Column("ended", Boolean),
    Column("written_at", UtcTime),
)

live_watches = Table(
    "live_watches",
    metadata,
    _key("run"),
    Column("beat", BigInteger),
    Column("written_at", UtcTime),
)

blobs = Table(
    "blobs",
    metadata,
    _key("address"),
    Column("content", LargeBinary),
    Column("written_at", UtcTime),
)

blob_objects = Table(
    "blob_objects",
    metadata,
    _key("address"),
    Column("object", Text),
    Column("size", BigInteger),
    Column("written_at", UtcTime),
)

memory = Table(
    "memory",
    metadata,
    _key("number", BigInteger),
    *_texts("id", "kind"),
    # Each category on a line of its own, so that one of many can be looked for.
    *_texts("categories", "name"),
    Column("learned", Boolean),
    *_times("created", "fades_at"),
    Column("terms", Text),
    Column("length", Integer),
    *_contents("memory", "entry"),
)

memory_totals = Table(
    "memory_totals",
    metadata,
    _key("slot", Integer),
    Column("entries", BigInteger),
    Column("length", BigInteger),
)

memory_uses = Table(
    "memory_uses",
    metadata,
    _key("run"),
    _key("entry"),
    Column("used_at", UtcTime),
    Column("accepted", Boolean),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    _key("id"),
    *_texts("name", "scopes", "digest", "former_digest", "runs", "folders"),
    *_times("created_at", "expires_at", "revoked_at", "former_until", "last_used_at"),
)

audit = Table(
    "audit",
    metadata,
    # Rows of one id are one entry: the first says when it began, the last how it ended.
    _key("seq", Integer),
    Column("id", Text),
    Column("at", UtcTime),
    *_texts("action", "outcome", "who", "run"),
    *_contents("audit", "about"),
    Column("count", BigInteger),
    Column("last_at", UtcTime),
)

notices = Table(
    "notices",
    metadata,
    _key("id"),
    *_texts("run", "gate"),
    *_contents("notices", "event", "problem"),
    Column("state", Text),
    Column("attempts", Integer),
    *_times("due_at", "made_at", "ended_at"),
)

encryption_keys = Table(
    "encryption_keys", metadata, _key("id"), *_times("first_used_at", "retired_at")
)

api_starts = Table(
    "api_starts",
    metadata,
    _key("run"),
    *_texts("token", "key", "body_hash"),
    Column("at", UtcTime),
)

signing_keys = Table(
    "signing_keys",
    metadata,
    _key("slot", Integer),
    Column("key", LargeBinary),
)

sessions = Table(
    "sessions",
    metadata,
    _key("id"),
    *_contents("sessions", "title"),
    Column("state", Text),
    *_times("created_at", "closed_at"),
)

projects = Table(
    "projects",
    metadata,
    _key("id"),
    Column("slug", Text),
    *_contents("projects", "goal"),
    Column("created_at", UtcTime),
)

artifacts = Table(
    "artifacts",
    metadata,
    _key("id"),
    *_texts("scope", "owner", "run"),
    Column("iteration", BigInteger),
    *_texts("stage", "kind"),
    *_contents("artifacts", "name"),
    *_texts("media_type", "ref"),
    Column("bytes", BigInteger),
    Column("created_at", UtcTime),
)

todos = Table(
    "todos",
    metadata,
    _key("id"),
    *_texts("scope", "owner", "run"),
    *_contents("todos", "text"),
    Column("status", Text),
    Column("position", BigInteger),
    Column("written_by", Text),
    *_times("created_at", "changed_at"),
)

sprints = Table(
    "sprints",
    metadata,
    _key("run"),
    _key("iteration", BigInteger),
    Column("project", Text),
    *_contents("sprints", "goal", "note"),
    Column("changed_at", UtcTime),
)

made_tools = Table(
    "made_tools",
    metadata,
    _key("hash"),
    *_texts("name", "state"),
    Column("made_at", UtcTime),
    *_contents("made_tools", "tool"),
)

made_tool_makers = Table(
    "made_tool_makers",
    metadata,
    _key("hash"),
    _key("run"),
    *_texts("root", "worker"),
    Column("made_at", UtcTime),
)

experiments = Table(
    "experiments",
    metadata,
    _key("id"),
    *_contents("experiments", "name", "plan"),
    *_texts("state", "reason"),
    Column("inputs", BigInteger),
    Column("digest", Text),
    *_times("created_at", "ended_at"),
)

experiment_inputs = Table(
    "experiment_inputs",
    metadata,
    _key("experiment"),
    _key("position", Integer),
    *_contents("experiment_inputs", "entry"),
)

experiment_trials = Table(
    "experiment_trials",
    metadata,
    _key("experiment"),
    _key("number", Integer),
    Column("ended", Boolean),
    *_contents("experiment_trials", "trial"),
)

schedules = Table(
    "schedules",
    metadata,
    _key("name"),
    *_contents("schedules", "plan"),
    *_times("created_at", "changed_at", "deleted_at"),
)

schedule_starts = Table(
    "schedule_starts",
    metadata,
    _key("run"),
    Column("schedule", Text),
    Column("at", UtcTime),
    Column("limit_usd", Money),
    Column("limit_tokens", BigInteger),
    Column("lowered", Boolean),
    Column("refused", Text),
)

tombstones = Table(
    "tombstones",
    metadata,
    _key("run"),
    *_texts("root", "kind"),
    *_contents("tombstones", "label"),
    *_texts("outcome"),
    *_times("started_at", "ended_at", "at"),
    *_texts("why"),
)

erased_blobs = Table(
    "erased_blobs",
    metadata,
    _key("address"),
    _key("root"),
    Column("at", UtcTime),
)
