"""Artifacts and todos: kept once for each key, and out of reach of other sessions and projects."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.projects import SqlArtifacts, SqlTodos
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.projects.records import Artifact, Membership, Reach, ScopeKind, Todo, TodoCounts

START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
OWN = Reach(run="r1", session="s1", project="p1")
STRANGERS = {
    "another run of the session": Reach(run="r2", session="s1"),
    "another run of the project": Reach(run="r2", project="p1"),
    "another session and project": Reach(run="r2", session="s2", project="p2"),
    "a run that stands alone": Reach(run="r2"),
    "ids in the wrong place": Reach(run="p1", session="p1", project="s1"),
}
SEEN: dict[str, set[ScopeKind]] = {
    "another run of the session": {"session"},
    "another run of the project": {"project"},
}


@pytest.fixture
def artifacts(database: Database) -> SqlArtifacts:
    return SqlArtifacts(database)


@pytest.fixture
def todos(database: Database) -> SqlTodos:
    return SqlTodos(database)


def _artifact(name: str, scope: ScopeKind = "run", *, minutes: int = 0) -> Artifact:
    return Artifact(
        id=name,
        belongs=OWN.belonging(scope),
        run="r1",
        iteration=3,
        stage="coder",
        kind="loop_output",
        name="Ausgabe ä",
        ref=f"sha256:{name}",
        bytes=7,
        created_at=START + timedelta(minutes=minutes),
    )


def _todo(name: str, scope: ScopeKind = "run", text: str = "do it") -> Todo:
    belongs = OWN.belonging(scope)
    return Todo(
        id=name, belongs=belongs, run="r1", text=text, by="plan", created_at=START, changed_at=START
    )


async def test_an_artifact_is_kept_once(artifacts: SqlArtifacts) -> None:
    first = await artifacts.add_artifact(_artifact("a"))
    again = await artifacts.add_artifact(first.model_copy(update={"name": "other"}))
    assert again == first == await artifacts.artifact("a", reach=OWN)


async def test_what_is_said_anew_takes_the_place_of_the_former(artifacts: SqlArtifacts) -> None:
    await artifacts.add_artifact(_artifact("a"))
    anew = _artifact("a", minutes=5).model_copy(update={"ref": "sha256:b", "bytes": 9})
    assert await artifacts.add_artifact(anew, limit=1, replaces=True) == anew
    again = anew.model_copy(update={"created_at": START})
    assert await artifacts.add_artifact(again, replaces=True) == anew, "the step was repeated"
    other = anew.model_copy(update={"run": "r2", "ref": "sha256:c"})
    assert await artifacts.add_artifact(other, replaces=True) == anew
    assert await artifacts.artifacts_of_run("r1") == [anew]


async def test_artifacts_come_newest_first_and_by_kind(artifacts: SqlArtifacts) -> None:
    for minutes, name in enumerate(["a", "b", "c"]):
        await artifacts.add_artifact(_artifact(name, minutes=minutes))
    note = _artifact("d", minutes=9).model_copy(update={"kind": "note"})
    await artifacts.add_artifact(note)
    assert [item.id for item in await artifacts.artifacts(reach=OWN, limit=2)] == ["d", "c"]
    outputs = await artifacts.artifacts(reach=OWN, kind="loop_output")
    assert [item.id for item in outputs] == ["c", "b", "a"]
    assert [item.id for item in await artifacts.artifacts_of_run("r1")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
async def test_strangers_see_only_what_is_shared_with_them(
    artifacts: SqlArtifacts, todos: SqlTodos, stranger: str
) -> None:
    scopes: tuple[ScopeKind, ...] = ("run", "session", "project")
    for scope in scopes:
        await artifacts.add_artifact(_artifact(scope, scope))
        await todos.add_todo(_todo(scope, scope))
    reach = STRANGERS[stranger]
    shared = SEEN.get(stranger, set())
    assert {item.id for item in await artifacts.artifacts(reach=reach)} == shared
    assert {item.id for item in await todos.todos(reach=reach)} == shared
    assert (await todos.count_todos(reach=reach)).total == len(shared)
    for scope in scopes:
        found = await artifacts.artifact(scope, reach=reach)
        changed = await todos.change_todo(scope, reach=reach, at=START, status="done")
        assert (found is not None, changed is not None) == (scope in shared, scope in shared)
    untouched = {item.id for item in await todos.todos(reach=OWN, status="pending")}
    assert untouched == set(scopes) - shared


async def test_a_todo_is_kept_once_however_often_it_is_added(todos: SqlTodos) -> None:
    added = await asyncio.gather(*(todos.add_todo(_todo("same")) for _ in range(6)))
    assert len(set(added)) == 1
    assert len(await todos.todos(reach=OWN)) == 1


async def test_todos_stand_in_the_order_of_adding(todos: SqlTodos) -> None:
    for name in ("c", "a", "b"):
        await todos.add_todo(_todo(name))
    assert [(item.id, item.order) for item in await todos.todos(reach=OWN)] == [
        ("c", 1),
        ("a", 2),
        ("b", 3),
    ]
    await todos.change_todo("b", reach=OWN, at=START, order=0)
    assert [item.id for item in await todos.todos(reach=OWN)] == ["b", "c", "a"]


async def test_only_what_is_given_changes(todos: SqlTodos) -> None:
    before = await todos.add_todo(_todo("a"))
    later = START + timedelta(hours=1)
    changed = await todos.change_todo("a", reach=OWN, at=later, status="in_progress")
    wanted = {"status": "in_progress", "changed_at": later}
    assert changed == before.model_copy(update=wanted)
    assert await todos.change_todo("none", reach=OWN, at=later, status="done") is None


async def test_todos_are_counted_by_status(todos: SqlTodos) -> None:
    for name in ("a", "b", "c"):
        await todos.add_todo(_todo(name))
    await todos.change_todo("a", reach=OWN, at=START, status="done")
    assert await todos.count_todos(reach=OWN) == TodoCounts(pending=2, done=1)


async def test_a_scope_has_room_for_so_many_and_repeats_take_none(
    artifacts: SqlArtifacts, todos: SqlTodos
) -> None:
    for _ in range(3):
        await todos.add_todo(_todo("a"), limit=1)
        await artifacts.add_artifact(_artifact("a"), limit=1)
    with pytest.raises(NotAllowed, match="holds 1 todos; 1 are allowed"):
        await todos.add_todo(_todo("b"), limit=1)
    with pytest.raises(NotAllowed, match="holds 1 artifacts; 1 are allowed"):
        await artifacts.add_artifact(_artifact("b"), limit=1)
    elsewhere = _todo("c").model_copy(update={"belongs": Membership(scope="run", owner="r9")})
    assert (await todos.add_todo(elsewhere, limit=1)).id == "c"


async def test_a_deleted_run_takes_its_own_notes_along(
    database: Database, artifacts: SqlArtifacts, todos: SqlTodos
) -> None:
    await artifacts.add_artifact(_artifact("a", "project"))
    await todos.add_todo(_todo("own"))
    await todos.add_todo(_todo("shared", "project"))
    await SqlRecords(database).delete_run("r2")
    assert len(await artifacts.artifacts_of_run("r1")) == 1
    await SqlRecords(database).delete_run("r1")
    assert await artifacts.artifacts_of_run("r1") == []
    assert [item.id for item in await todos.todos(reach=OWN)] == ["shared"]
