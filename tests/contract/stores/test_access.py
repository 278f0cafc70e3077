"""Tokens, starts and the signing key, in both databases."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, text

from perdure.adapters.stores.access import SqlAccess
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.tables import api_starts, ended_sessions
from perdure.domain.installation.access import ApiToken, IdempotencyRecord, digest_of
from perdure.domain.retention.erasure import Tombstone

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


@pytest.fixture
def access(database: Database) -> SqlAccess:
    return SqlAccess(database)


def token(name: str = "page", **more: object) -> ApiToken:
    values = {"id": "00c0ffee", "scopes": ("read", "answer"), "digest": digest_of("s")} | more
    return ApiToken.model_validate({"name": name, "created_at": NOW, **values})


def start(run: str, *, key: str | None = "k", owner: str = "00c0ffee") -> IdempotencyRecord:
    return IdempotencyRecord(run=run, token=owner, key=key, body_hash=f"hash of {run}", at=NOW)


async def test_a_token_comes_back_as_it_was(access: SqlAccess) -> None:
    kept = token(expires_at=NOW + timedelta(days=1))
    await access.add_token(kept)
    assert await access.token(kept.id) == kept
    assert await access.token("ffffffff") is None


async def test_of_two_rotations_at_once_one_counts(access: SqlAccess) -> None:
    await access.add_token(token())
    new = [
        token().rotated(secret, at=NOW, expires_at=None, overlap=timedelta(hours=1))
        for secret in ("first", "second")
    ]
    took = await asyncio.gather(
        *(access.rotate_token(each, instead_of=token().digest) for each in new)
    )
    assert sorted(took) == [False, True]
    assert await access.token("00c0ffee") == new[took.index(True)]


async def test_a_person_who_signs_in_again_has_the_name_and_scopes_of_today(
    access: SqlAccess,
) -> None:
    await access.add_token(token())
    now = token("Alice", scopes=("admin",), expires_at=NOW + timedelta(hours=12))
    assert await access.rotate_token(now, instead_of=token().digest)
    assert await access.token("00c0ffee") == now


async def test_a_revoked_token_is_not_rotated(access: SqlAccess) -> None:
    await access.add_token(token())
    await access.revoke_token("00c0ffee", at=NOW)
    new = token().rotated("new", at=NOW, expires_at=None, overlap=timedelta())
    assert not await access.rotate_token(new, instead_of=token().digest)


async def test_a_token_is_revoked_once(access: SqlAccess) -> None:
    await access.add_token(token())
    assert await access.revoke_token("00c0ffee", at=NOW)
    assert not await access.revoke_token("00c0ffee", at=NOW + timedelta(days=1))
    (kept,) = await access.tokens()
    assert kept.revoked_at == NOW


async def test_a_session_that_was_ended_has_no_token(access: SqlAccess) -> None:
    await access.add_token(token())
    until = NOW + timedelta(hours=12)
    assert await access.session_token("00c0ffee", session="one") == token()
    for _ in range(2):  # as two tabs that sign out
        await access.end_session("one", until=until, now=NOW)
    assert await access.session_token("00c0ffee", session="one") is None
    assert await access.session_token("00c0ffee", session="two") == token()
    assert await access.session_token("ffffffff", session="two") is None


async def test_ended_sessions_are_forgotten_when_their_time_is_over(
    access: SqlAccess, database: Database
) -> None:
    for hours, now in ((1, NOW), (2, NOW), (3, NOW + timedelta(hours=1))):
        await access.end_session(f"s{hours}", until=NOW + timedelta(hours=hours), now=now)
    async with database.read() as connection:
        kept = set(await connection.scalars(select(ended_sessions.c.id)))
    assert kept == {"s2", "s3"}, "the first was over when the last one ended"


async def test_a_claim_is_settled_once_for_one_run(access: SqlAccess) -> None:
    first = await access.claim_start(start("start of news 1", key="a"))
    second = await access.claim_start(start("start of news 2", key="b"))
    assert await access.settle_start(first.run, run="news-1", why="")
    assert not await access.settle_start(second.run, run="news-1", why="")
    assert await access.settle_start(second.run, run=None, why="skipped")
    again = await access.claim_start(start("start of news 3", key="a"))
    assert (again.run, again.body_hash) == ("news-1", first.body_hash)
    again = await access.claim_start(start("start of news 3", key="b"))
    assert (again.run, again.why) == (second.run, "skipped")


async def test_who_asked_for_a_source_of_runs_is_known(access: SqlAccess) -> None:
    for token_id in ("one", "one", "two"):
        await access.note_requester("schedule news", token_id, at=NOW)
    await access.note_requester("experiment x", "three", at=NOW)
    assert await access.requesters(["schedule news", "schedule else"]) == {"one", "two"}
    assert await access.requesters([]) == frozenset()


async def test_tokens_are_listed_by_age(access: SqlAccess) -> None:
    await access.add_token(token(id="00000002", name="later", created_at=NOW + timedelta(1)))
    await access.add_token(token(id="00000003"))
    assert [kept.name for kept in await access.tokens()] == ["page", "later"]


async def test_of_many_starts_with_one_key_the_first_counts(access: SqlAccess) -> None:
    claims = await asyncio.gather(*(access.claim_start(start(f"r{n}")) for n in range(8)))
    assert len({claim.run for claim in claims}) == 1
    first = claims[0]
    assert await access.started_by(first.run) == first
    assert await access.start_of_key(first.token, "k") == first
    assert await access.start_of_key("other", "k") is None


async def test_keys_belong_to_their_token(access: SqlAccess) -> None:
    assert (await access.claim_start(start("r1"))).run == "r1"
    assert (await access.claim_start(start("r2", owner="other"))).run == "r2"


async def test_starts_without_a_key_never_meet(access: SqlAccess) -> None:
    assert (await access.claim_start(start("r1", key=None))).run == "r1"
    assert (await access.claim_start(start("r2", key=None))).run == "r2"
    assert await access.started_by("r2") is not None


async def test_a_forgotten_start_frees_its_key(access: SqlAccess) -> None:
    await access.claim_start(start("r1"))
    await access.forget_start("r1")
    assert await access.started_by("r1") is None
    assert (await access.claim_start(start("r2"))).run == "r2"


async def test_a_start_goes_with_its_run_however_that_goes(database: Database) -> None:
    access = SqlAccess(database)
    for run in ("deleted", "erased", "stays"):
        await access.claim_start(start(run, key=run))
    await SqlRecords(database).delete_run("deleted")
    await SqlErasure(database).drop(["erased"])
    assert await access.started_by("deleted") is None
    assert await access.started_by("erased") is None
    assert (await access.claim_start(start("r2", key="deleted"))).run == "r2"
    assert (await access.claim_start(start("r3", key="stays"))).run == "stays"


async def stored_keys(database: Database) -> set[str]:
    return set(await database.values(select(api_starts.c.key)))


async def test_of_a_key_the_digest_is_stored(database: Database, access: SqlAccess) -> None:
    key = "order of ada@example.org"
    first = await access.claim_start(start("r1", key=key))
    assert await access.claim_start(start("r2", key=key)) == first
    assert await stored_keys(database) == {digest_of(key)}


async def test_keys_of_an_earlier_version_are_made_digests_and_dead_ones_go(
    database_url: str,
) -> None:
    old = await Database.open(database_url)
    stone = Tombstone(run="gone", root="gone", kind="agent", started_at=NOW, at=NOW, why="expired")
    await SqlRecords(old).delete_run("gone", stone=stone)
    async with old.write() as connection:
        for run in ("gone", "begins"):
            row = start(run, key=f"Zoë's {run}").model_dump()
            await connection.execute(insert(api_starts).values(row))
        await connection.execute(text("DELETE FROM schema_versions WHERE number = 46"))
    await old.close()
    new = await Database.open(database_url)
    try:
        assert await stored_keys(new) == {digest_of("Zoë's begins")}
        again = await SqlAccess(new).claim_start(start("another", key="Zoë's begins"))
        assert again.run == "begins"
    finally:
        await new.close()


async def test_the_signing_key_is_made_once(access: SqlAccess) -> None:
    keys = await asyncio.gather(*(access.signing_key() for _ in range(8)))
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32


async def test_the_last_use_of_a_token_is_remembered(access: SqlAccess) -> None:
    await access.add_token(kept := token())
    assert (found := await access.token(kept.id)) is not None
    assert found.last_used_at is None
    assert found.unnoted(NOW)
    await access.note_use(kept.id, at=NOW)
    assert (found := await access.token(kept.id)) is not None
    assert found.last_used_at == NOW
    assert not found.unnoted(NOW + timedelta(seconds=59))
    assert found.unnoted(NOW + timedelta(minutes=1))
