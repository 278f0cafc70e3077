"""The tables of the stores as SQLAlchemy sees them; `schema/` is what creates them."""

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Table, Text

from perdure.adapters.stores.book_tables import schedule_bookings as schedule_bookings
from perdure.adapters.stores.book_tables import schedule_spend as schedule_spend
from perdure.adapters.stores.book_tables import schedule_starts as schedule_starts
from perdure.adapters.stores.book_tables import schedules as schedules
from perdure.adapters.stores.book_tables import spend_totals as spend_totals
from perdure.adapters.stores.columns import Money, UtcTime, contents, key, metadata, texts, times

attempts = Table(
    "attempts",
    metadata,
    key("key"),
    key("attempt", Integer),
    # An attempt that begins again after it was closed gets another row, so that booked figures are
    # never overwritten.
    key("opening", Integer),
    *texts("execution", "root", "run", "phase", "role"),
    Column("iteration", Integer),
    *texts("model", "request_hash", "state", "usage"),
    Column("cost_usd", Money),
    Column("estimate", Text),
    Column("estimate_cost_usd", Money),
    Column("at_estimate", Boolean),
    # Whether the figures of a lost attempt were told to its run, and must stay.
    Column("settled", Boolean),
    Column("started_at", UtcTime),
    Column("seconds", Double),
    # Whether `call_totals` includes it.
    Column("counted", Boolean),
)

call_totals = Table(
    "call_totals",
    metadata,
    key("model"),
    key("phase"),
    *(
        Column(name, BigInteger)
        for name in (
            "calls", "unconfirmed", "input_tokens", "cache_read_tokens", "output_tokens",
        )
    ),
    Column("cost_usd", Double),
)  # fmt: skip

replies = Table(
    "replies",
    metadata,
    key("key"),
    Column("attempt", Integer),
    Column("opening", Integer),
    Column("request_hash", Text),
    *contents("replies", "reply"),
)

run_savings = Table(
    "run_savings",
    metadata,
    key("run"),
    Column("ended_at", UtcTime),
    Column("input_tokens", BigInteger),
    Column("naive_input_tokens", BigInteger),
)

seals = Table("seals", metadata, key("execution"), Column("sealed_at", UtcTime))

tree_seals = Table("tree_seals", metadata, key("root"), key("run"), Column("sealed_at", UtcTime))

installation = Table("installation", metadata, key("slot", Integer), Column("id", Text))

workspaces = Table(
    "workspaces", metadata, key("id"), Column("path", Text), Column("used_at", UtcTime)
)

runs = Table(
    "runs",
    metadata,
    key("id"),
    Column("kind", Text),
    *contents("runs", "goal", "label"),
    *texts("lifecycle", "outcome"),
    *times("started_at", "ended_at"),
    *contents("runs", "result", "status"),
    *texts("spec", "state", "parent", "digest", "start_key", "workspace", "namespace"),
)

run_totals = Table(
    "run_totals",
    metadata,
    key("kind"),
    key("lifecycle"),
    key("outcome"),
    Column("kept", BigInteger),
    Column("ends", BigInteger),
)

iterations = Table(
    "iterations", metadata, key("run"), key("position", Integer), *contents("iterations", "record")
)

script_entries = Table(
    "script_entries",
    metadata,
    key("run"),
    key("key"),
    key("entry", Integer),
    Column("taken_at", UtcTime),
)

verdicts = Table(
    "verdicts",
    metadata,
    key("key"),
    *contents("verdicts", "reply"),
    Column("written_at", UtcTime),
    # Who paid for it. Empty: the verdict does not say. NULL: an earlier version wrote it.
    Column("run", Text),
)

live_texts = Table(
    "live_texts",
    metadata,
    key("run"),
    key("call"),
    *texts("key"),
    Column("attempt", Integer),
    Column("iteration", Integer),
    *texts("phase", "role", "worker", "model"),
    Column("start", BigInteger),
    *contents("live_texts", "text"),
    Column("ended", Boolean),
    Column("written_at", UtcTime),
)

live_watches = Table(
    "live_watches", metadata, key("run"), Column("beat", BigInteger), Column("written_at", UtcTime)
)

blobs = Table(
    "blobs", metadata, key("address"), Column("content", LargeBinary), Column("written_at", UtcTime)
)

blob_objects = Table(
    "blob_objects",
    metadata,
    key("address"),
    Column("object", Text),
    Column("size", BigInteger),
    Column("written_at", UtcTime),
)

memory = Table(
    "memory",
    metadata,
    # The full-text index of SQLite names entries by whole numbers.
    key("number", BigInteger),
    *texts("id", "kind"),
    # One category a line, so that a query can look for one among several.
    *texts("categories", "name"),
    Column("learned", Boolean),
    *times("created", "fades_at"),
    Column("terms", Text),
    Column("length", Integer),
    *contents("memory", "entry"),
    # Whether `memory_origins` has its runs; a trigger unsets this whenever `entry` changes.
    Column("noted", Boolean, default=False),
)

memory_origins = Table("memory_origins", metadata, key("run"), key("entry"))

memory_totals = Table(
    "memory_totals",
    metadata,
    key("slot", Integer),
    Column("entries", BigInteger),
    Column("length", BigInteger),
)

memory_uses = Table(
    "memory_uses",
    metadata,
    key("run"),
    key("entry"),
    Column("used_at", UtcTime),
    Column("accepted", Boolean),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    key("id"),
    *texts("name", "scopes", "digest", "former_digest", "runs", "folders"),
    *times("created_at", "expires_at", "revoked_at", "former_until", "last_used_at"),
)

audit = Table(
    "audit",
    metadata,
    # Rows with one id are one entry: the first says when it began, the last how it ended.
    key("seq", BigInteger),
    Column("id", Text),
    Column("at", UtcTime),
    *texts("action", "outcome", "who", "run"),
    *contents("audit", "about"),
    Column("count", BigInteger),
    Column("last_at", UtcTime),
)

notices = Table(
    "notices",
    metadata,
    key("id"),
    *texts("run", "gate"),
    *contents("notices", "event", "problem"),
    Column("state", Text),
    Column("attempts", Integer),
    *times("due_at", "made_at", "ended_at"),
)

encryption_keys = Table(
    "encryption_keys", metadata, key("id"), *times("first_used_at", "retired_at")
)

api_starts = Table(
    "api_starts",
    metadata,
    key("run"),
    *texts("token", "key", "body_hash", "why"),
    Column("at", UtcTime),
)

api_requesters = Table(
    "api_requesters", metadata, key("source"), key("token"), Column("at", UtcTime)
)

ended_sessions = Table("ended_sessions", metadata, key("id"), Column("until", UtcTime))

signing_keys = Table("signing_keys", metadata, key("slot", Integer), Column("key", LargeBinary))

sessions = Table(
    "sessions",
    metadata,
    key("id"),
    *contents("sessions", "title"),
    Column("state", Text),
    *times("created_at", "closed_at"),
)

projects = Table(
    "projects",
    metadata,
    key("id"),
    Column("slug", Text),
    *contents("projects", "goal"),
    Column("created_at", UtcTime),
)

artifacts = Table(
    "artifacts",
    metadata,
    key("id"),
    *texts("scope", "owner", "run"),
    Column("iteration", BigInteger),
    *texts("stage", "kind"),
    *contents("artifacts", "name"),
    *texts("media_type", "ref"),
    Column("bytes", BigInteger),
    Column("created_at", UtcTime),
)

todos = Table(
    "todos",
    metadata,
    key("id"),
    *texts("scope", "owner", "run"),
    *contents("todos", "text"),
    Column("status", Text),
    Column("position", BigInteger),
    Column("written_by", Text),
    *times("created_at", "changed_at"),
)

sprints = Table(
    "sprints",
    metadata,
    key("run"),
    key("iteration", BigInteger),
    Column("project", Text),
    *contents("sprints", "goal", "note"),
    Column("changed_at", UtcTime),
)

made_tools = Table(
    "made_tools",
    metadata,
    key("hash"),
    *texts("name", "state"),
    Column("made_at", UtcTime),
    *contents("made_tools", "tool"),
)

made_tool_makers = Table(
    "made_tool_makers",
    metadata,
    key("hash"),
    key("run"),
    *texts("root", "worker"),
    Column("made_at", UtcTime),
)

experiments = Table(
    "experiments",
    metadata,
    key("id"),
    *contents("experiments", "name", "plan"),
    *texts("state", "reason"),
    Column("inputs", BigInteger),
    Column("digest", Text),
    *times("created_at", "ended_at"),
)

experiment_inputs = Table(
    "experiment_inputs",
    metadata,
    key("experiment"),
    key("position", Integer),
    *contents("experiment_inputs", "entry"),
)

experiment_trials = Table(
    "experiment_trials",
    metadata,
    key("experiment"),
    key("number", Integer),
    Column("ended", Boolean),
    *contents("experiment_trials", "trial"),
    # The spend of the trial, so that sums need not read trials. NULL: of an earlier version.
    Column("tokens", BigInteger),
    Column("pico_usd", BigInteger),
)

tombstones = Table(
    "tombstones",
    metadata,
    key("run"),
    *texts("root", "kind"),
    *contents("tombstones", "label"),
    *texts("outcome"),
    *times("started_at", "ended_at", "at"),
    *texts("why"),
)

erasures = Table("erasures", metadata, key("root"), Column("at", UtcTime))

erased_blobs = Table("erased_blobs", metadata, key("address"), key("root"), Column("at", UtcTime))
