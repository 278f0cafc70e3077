"""What an erasure finds by index, in both databases, whoever wrote it."""

from datetime import UTC, datetime

from remembering import episode
from sqlalchemy import update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.memory import SqlMemory
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.tables import memory
from perdure.domain.evaluation.judge_cache import KeptVerdict
from perdure.domain.memory.entries import Origin, Skill

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def origins(*runs: str) -> tuple[Origin, ...]:
    return tuple(Origin(run=run, outcome="accepted") for run in runs)


async def entries(database: Database) -> list[str]:
    return sorted(entry.id for entry in await SqlMemory(database).list())


async def test_memory_of_erased_runs_goes_whatever_became_of_its_entries(
    database: Database,
) -> None:
    store = SqlMemory(database)
    await store.put(episode("mine", "goal one").model_copy(update={"origins": origins("a")}))
    await store.put(episode("both", "goal two").model_copy(update={"origins": origins("a", "b")}))
    await store.put(episode("other", "goal three").model_copy(update={"origins": origins("b")}))
    await store.put(
        Skill(
            kind="skill", id="skill", name="letters", text="t", created=NOW,
            origins=origins("b"), proposed_by="a",
        )
    )  # fmt: skip
    # An entry that lost and won an origin is found by what it has now.
    await store.replace((await store.get("mine")).model_copy(update={"origins": origins("c")}))
    await store.replace((await store.get("mine")).model_copy(update={"origins": origins("a")}))
    planned = await SqlErasure(database).would_forget(["a"])
    found = await SqlErasure(database).drop(["a"])
    assert (found.episodes, found.skills, found.shared) == (1, 1, ("both",))
    assert found == planned
    assert await entries(database) == ["both", "other"]
    assert (await SqlErasure(database).drop(["b"])).episodes == 2
    assert await entries(database) == []


async def test_what_an_earlier_version_wrote_is_found_too(database: Database) -> None:
    store = SqlMemory(database)
    for id in ("new", "changed"):
        one = episode(id, f"goal {id}").model_copy(update={"origins": origins("b")})
        await store.put(one)
    text = one.model_copy(update={"origins": origins("a")}).model_dump_json()
    async with database.write() as connection:
        # It knows of no origins, and writes the text alone.
        table = "UPDATE memory SET entry = {} WHERE id = 'changed'"
        mark = "?" if database.dialect_name == "sqlite" else "%s"
        await connection.exec_driver_sql(table.format(mark), (text,))
    assert (await SqlErasure(database).drop(["a"])).episodes == 1
    assert await entries(database) == ["new"]


async def test_what_this_version_cannot_read_goes_by_its_noted_origins(
    database: Database,
) -> None:
    store = SqlMemory(database)
    for id, runs in (("mine", ["a"]), ("both", ["a", "b"]), ("other", ["b"]), ("untold", ["a"])):
        await store.put(episode(id, f"goal {id}").model_copy(update={"origins": origins(*runs)}))
    async with database.write() as connection:
        await connection.execute(update(memory).values(entry='{"newer": 1}'))
        # A version that notes origins does so after it has written the text.
        noted = update(memory).where(memory.c.id != "untold")
        await connection.execute(noted.values(noted=True))
    planned = await SqlErasure(database).would_forget(["a"])
    found = await SqlErasure(database).drop(["a"])
    assert found == planned
    assert (found.episodes, found.shared) == (1, ("untold", "both"))
    assert await store.unreadable() == ["both", "other", "untold"]
    last = await SqlErasure(database).drop(["b"])
    assert (last.episodes, last.shared) == (2, ("untold",))


async def test_verdicts_go_with_who_paid_for_them(database: Database) -> None:
    records = SqlRecords(database)
    for run in ("a", "b", "c"):
        kept = KeptVerdict(run=run, reply="{}").model_dump_json()
        await records.put_verdict(f"of-{run}", kept)
    await records.put_verdict("nobody", "{}")
    async with database.write() as connection:
        await connection.exec_driver_sql("UPDATE verdicts SET run = NULL WHERE key <> 'of-a'")
    await SqlErasure(database).drop(["a"])
    left = [name for name in ("of-a", "of-b", "of-c", "nobody") if await records.verdict(name)]
    assert left == ["of-b", "of-c"]
    await SqlErasure(database).drop(["b"])
    assert await records.verdict("of-b") is None


async def test_what_was_asked_for_is_pending_until_it_is_done(database: Database) -> None:
    erasure = SqlErasure(database)
    assert (await erasure.pending()).roots == ()
    for _ in range(2):
        await erasure.ask(["a", "b"], at=NOW)
    await erasure.mark([], ["sha256:1"], root="a", at=NOW)
    await erasure.close_erasure("a")
    left = await erasure.pending()
    assert (left.roots, left.since, left.blobs, left.blobs_since) == (("b",), NOW, 1, NOW)
