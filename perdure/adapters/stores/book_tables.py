"""The tables of schedules and of books that outlive runs; `tables` has them with all others."""

from decimal import Decimal

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, Table, Text

from perdure.adapters.stores.columns import Money, UtcTime, contents, key, metadata, texts, times

schedules = Table(
    "schedules",
    metadata,
    key("name"),
    *contents("schedules", "plan"),
    *times("created_at", "changed_at", "deleted_at"),
)

schedule_starts = Table(
    "schedule_starts",
    metadata,
    key("run"),
    Column("schedule", Text),
    Column("at", UtcTime),
    Column("limit_usd", Money),
    Column("limit_tokens", BigInteger),
    Column("lowered", Boolean),
    Column("refused", Text),
    # Whether the start may still spend from its month; triggers on `runs` maintain it.
    Column("open", Boolean, default=True),
    Column("spent_usd", Money, default=Decimal(0)),
    Column("spent_tokens", BigInteger, default=0),
)

schedule_bookings = Table(
    "schedule_bookings",
    metadata,
    key("number", BigInteger),
    *texts("schedule", "run", "root"),
    Column("started_at", UtcTime),
    *texts("state", "usage"),
    Column("cost_usd", Money),
    Column("estimate", Text),
    # -1 takes back what an earlier booking of the attempt counted.
    Column("sign", Integer),
)

schedule_spend = Table(
    "schedule_spend",
    metadata,
    key("schedule"),
    Column("began", UtcTime, primary_key=True),
    Column("cost_usd", Money),
    Column("tokens", BigInteger),
    Column("unpriced", BigInteger),
)

spend_totals = Table(
    "spend_totals",
    metadata,
    key("id"),
    *texts("day", "model", "phase", "kind"),
    *contents("spend_totals", "label"),
    Column("learning", Boolean),
    Column("unconfirmed", Boolean),
    *(Column(name, BigInteger) for name in ("calls", "unpriced_calls", "estimated_calls")),
    Column("cost_usd", Money),
    Column("seconds", Double),
    *(
        Column(name, BigInteger)
        for name in (
            "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
            "cache_write_1h_tokens",
        )
    ),
)  # fmt: skip
