"""Run rows, iteration records and registries: every write may be repeated."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import MARK, Cells
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.status import RunWords, StoredRun
from perdure.domain.turns.records import IterationRecord

KEY = b"k" * 32
START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


@pytest.fixture
def records(database: Database) -> SqlRecords:
    return SqlRecords(database)


def _run(name: str, *, hours: int = 0, lifecycle: str = "running") -> StoredRun:
    return StoredRun(
        id=name,
        kind="agent",
        goal="péruse",
        label=None,
        lifecycle=lifecycle,
        outcome=None,
        started_at=START + timedelta(hours=hours),
    )


async def test_the_installation_keeps_its_id(records: SqlRecords, database: Database) -> None:
    ids = await asyncio.gather(*(SqlRecords(database).installation() for _ in range(8)))
    assert {await records.installation(), *ids} == {ids[0]}
    assert len(ids[0]) == 8


async def test_a_folder_keeps_its_id(records: SqlRecords) -> None:
    ids = await asyncio.gather(*(records.workspace("/home/me/work") for _ in range(8)))
    other = await records.workspace("/home/me/other")
    assert len(set(ids)) == 1
    assert await records.workspaces() == {ids[0]: "/home/me/work", other: "/home/me/other"}


async def test_a_use_of_a_folder_is_noted(database: Database) -> None:
    now = START
    records = SqlRecords(database, now=lambda: now)
    folder = await records.workspace("/home/me/work")
    now += timedelta(seconds=30)
    await records.workspace("/home/me/work")
    assert [use.used_at for use in await records.workspace_uses()] == [START]
    now += timedelta(hours=3)
    assert await records.workspace("/home/me/work") == folder
    assert [use.used_at for use in await records.workspace_uses()] == [now]


@pytest.mark.parametrize(
    ("workspace", "ended", "busy"),
    [
        pytest.param("here", False, {"here"}, id="an open run"),
        pytest.param("here", True, set(), id="an ended one"),
        pytest.param("", False, set(), id="an open run without a folder"),
        pytest.param(None, False, {"here", "there"}, id="an open run of before"),
        pytest.param(None, True, set(), id="an ended one of before"),
    ],
)
async def test_open_runs_keep_their_folder_busy(
    records: SqlRecords, workspace: str | None, ended: bool, busy: set[str]
) -> None:
    ids = {name: await records.workspace(f"/home/me/{name}") for name in ("here", "there")}
    row = _run("a").model_copy(update={"workspace": ids.get(workspace or "", workspace)})
    await records.put_run(row.model_copy(update={"ended_at": START}) if ended else row)
    uses = {use.path.rpartition("/")[2]: use.busy for use in await records.workspace_uses()}
    assert uses == {"here": "here" in busy, "there": "there" in busy}


async def test_a_run_is_replaced_by_its_id(records: SqlRecords) -> None:
    await records.put_run(_run("agent-a-1"))
    ended = _run("agent-a-1", lifecycle="completed").model_copy(
        update={"ended_at": START + timedelta(days=1), "result": "{}", "label": "x"}
    )
    await records.put_run(ended)
    assert await records.run("agent-a-1") == ended
    assert await records.run("agent-a") is None


async def test_times_keep_their_moment_in_any_zone(records: SqlRecords) -> None:
    moment = datetime.fromisoformat("2026-01-02T03:04:05+02:00")
    await records.put_run(_run("a").model_copy(update={"started_at": moment}))
    found = await records.run("a")
    assert found is not None
    assert found.started_at == moment


@pytest.mark.parametrize(
    ("prefix", "limit", "expected"),
    [
        ("", 100, ["refine-c", "agent-b", "Agent-x", "agent-a"]),
        ("agent", 100, ["agent-b", "agent-a"]),
        ("agent-_", 100, []),
        ("%", 100, []),
        ("", 2, ["refine-c", "agent-b"]),
    ],
    ids=["all", "prefix", "underscore", "percent", "limit"],
)
async def test_runs_are_found_by_prefix_newest_first(
    records: SqlRecords, prefix: str, limit: int, expected: list[str]
) -> None:
    for hours, name in enumerate(["agent-a", "Agent-x", "agent-b", "refine-c"]):
        await records.put_run(_run(name, hours=hours))
    found = await records.find_runs(prefix=prefix, limit=limit)
    assert [run.id for run in found] == expected


async def test_runs_of_a_moment_and_before_are_found_behind_those_that_were_read(
    records: SqlRecords,
) -> None:
    for name, hours in (("a", 0), ("b", 1), ("d", 2), ("c", 2), ("e", 2), ("f", 3)):
        await records.put_run(_run(name, hours=hours))
    for passed, expected in enumerate(["cdeba", "deba", "eba", "ba"]):
        until = START + timedelta(hours=2)
        found = await records.find_runs(until=until, offset=passed)
        assert [run.id for run in found] == list(expected)
    before = START + timedelta(hours=2) - timedelta(microseconds=1)
    assert [run.id for run in await records.find_runs(until=before)] == ["b", "a"]


async def test_words_are_those_of_the_runs_that_are_known(records: SqlRecords) -> None:
    await records.put_run(_run("agent-a"))
    await records.put_run(_run("agent-b").model_copy(update={"goal": "müde", "label": "x"}))
    await records.put_run(_run("agent-c"))
    assert await records.words(["agent-b", "agent-c", "agent-d"]) == {
        "agent-b": RunWords(goal="müde", label="x"),
        "agent-c": RunWords(goal="péruse"),
    }
    assert await records.words([]) == {}


async def test_runs_and_their_beginnings_are_read_many_at_once(records: SqlRecords) -> None:
    first, second = _run("agent-a"), _run("agent-b", hours=2)
    for one in (first, second, _run("agent-c")):
        await records.put_run(one)
    wanted = ["agent-b", "agent-a", "agent-d"]
    told = {"agent-a": first.started_at, "agent-b": second.started_at}
    assert await records.start_times(wanted) == told
    assert sorted(row.id for row in await records.runs(wanted)) == ["agent-a", "agent-b"]
    assert (await records.start_times([]), await records.runs([])) == ({}, [])


async def test_the_status_of_a_run_is_edited_until_it_has_ended(records: SqlRecords) -> None:
    await records.put_run(_run("agent-a"))
    await records.edit_status("agent-a", "one")
    row = await records.run("agent-a")
    assert row is not None
    assert row == _run("agent-a").model_copy(update={"status": "one"})
    await records.put_run(row.model_copy(update={"ended_at": START}))
    await records.edit_status("agent-a", "two")
    await records.edit_status("agent-b", "two")
    ended = await records.run("agent-a")
    assert (ended and ended.status, await records.run("agent-b")) == ("one", None)


async def test_records_come_in_order_and_repeat(records: SqlRecords) -> None:
    for index in (10, 2, 1, 2):
        await records.put_record("r", index, f'{{"n": {index}}}')
    await records.put_record("r", 2, '{"n": "again"}')
    await records.put_record("other", 1, "{}")
    assert await records.records("r") == ['{"n": 1}', '{"n": "again"}', '{"n": 10}']


async def test_who_drops_records_again_is_told_the_same_tool_calls(records: SqlRecords) -> None:
    async def put(*indexes: int) -> None:
        for index in indexes:
            record = IterationRecord(index=index, tool_calls=10, origin="before")
            await records.put_record("r", index, record.model_dump_json())

    async def kept() -> list[int]:
        found = await records.records("r")
        return [IterationRecord.model_validate_json(text).index for text in found]

    await put(1, 2, 3)
    both = [records.drop_records("r", after=1) for _ in range(2)]
    assert await asyncio.gather(*both) == [20, 20]
    assert await kept() == [1]
    await put(2)
    assert await records.drop_records("r", after=1) == 30
    await put(2)
    assert await records.drop_records("r", after=0) == 50
    assert await kept() == []


async def test_a_script_entry_is_taken_once_a_call(records: SqlRecords) -> None:
    for key, entry in [("x/b", 0), ("x/b", 0), ("x/a", 3), ("x/a", 0), ("y/a", 3)]:
        await records.take_script_entry("r", key, entry)
    await records.take_script_entry("child", "x/c", 0)
    assert await records.script_uses("r", "x/") == {0: 2, 3: 1}
    assert await records.script_uses("r", "y/") == {3: 1}
    assert await records.script_uses("none", "x/") == {}
    assert await records.script_held("r", ["x/a", "x/b", "x/z"]) == {"x/a": 0, "x/b": 0}
    assert await records.script_held("child", ["x/a"]) == {}


@pytest.mark.parametrize(
    ("keys", "goal", "words"),
    [
        ((), "a\ud800", "cannot be kept.* can't encode character"),
        ((KEY,), "a\ud800", "cannot be kept.* can't encode character"),
        ((), f"{MARK}x", r"runs\.goal begins with .* Leave out the control character"),
    ],
    ids=["surrogate", "surrogate with a key", "mark of sealed texts"],
)
async def test_a_goal_that_cannot_be_kept_is_the_callers_error(
    database_url: str, keys: tuple[bytes, ...], goal: str, words: str
) -> None:
    database = await Database.open(database_url, cells=Cells(*keys))
    try:
        with pytest.raises(InvalidInput, match=words) as refused:
            await SqlRecords(database).put_run(_run("a").model_copy(update={"goal": goal}))
    finally:
        await database.close()
    causes, error = set[BaseException](), refused.value.__cause__
    while error is not None:
        assert error not in causes, "a circle, which walkers of causes never leave"
        causes.add(error)
        error = error.__cause__


async def test_the_first_verdict_on_a_question_stays(records: SqlRecords) -> None:
    assert await records.verdict("q1") is None
    await records.put_verdict("q1", '{"dimensions": []}')
    await records.put_verdict("q1", "another")
    assert await records.verdict("q1") == '{"dimensions": []}'
    assert await records.verdict("q2") is None


async def test_of_several_who_reopen_a_run_one_succeeds(records: SqlRecords) -> None:
    ended_at = START + timedelta(hours=1)
    ended = _run("a", lifecycle="failed").model_copy(
        update={"ended_at": ended_at, "result": "{}", "spec": "sha256:s", "state": "sha256:t"}
    )
    await records.put_run(ended)
    reopened = ended.model_copy(update={"lifecycle": "running", "ended_at": None, "result": None})
    tries = [records.reopen_run(reopened, ended_at=ended_at) for _ in range(4)]
    assert sorted(await asyncio.gather(*tries)) == [False, False, False, True]
    assert await records.run("a") == reopened
    assert not await records.reopen_run(_run("b"), ended_at=ended_at)


async def test_of_several_starts_of_one_id_one_claims_the_row(records: SqlRecords) -> None:
    rows = [_run("a", hours=hours) for hours in range(4)]
    claimed = await asyncio.gather(*(records.claim_run(row, seen=None) for row in rows))
    assert sorted(claimed) == [False, False, False, True]
    held = rows[claimed.index(True)]
    again = [_run("a", hours=hours) for hours in range(10, 14)]
    assert sum(await asyncio.gather(*(records.claim_run(row, seen=held) for row in again))) == 1


async def test_of_several_starts_with_one_key_one_claims_it(records: SqlRecords) -> None:
    rows = [_run(name).model_copy(update={"start_key": "k"}) for name in ("a", "b", "c")]
    claimed = await asyncio.gather(*(records.claim_run(row, seen=None) for row in rows))
    assert sum(claimed) == 1
    held = rows[claimed.index(True)]
    assert await records.run_of_key("k") == held
    assert await records.run_of_key("other") is None
    assert await records.claim_run(held.model_copy(update={"start_key": None}), seen=held)
    assert await records.run_of_key("k") is None
