"""Sessions, projects and sprints: every write may be repeated, names stay unique."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.projects import SqlProjects
from perdure.domain.foundation.errors import NotFound
from perdure.domain.projects.records import Project, Session, Sprint

START = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


@pytest.fixture
def projects(database: Database) -> SqlProjects:
    return SqlProjects(database)


def _session(name: str, *, hours: int = 0) -> Session:
    return Session(id=name, title="Ünïcode", created_at=START + timedelta(hours=hours))


def _project(name: str, slug: str, *, hours: int = 0) -> Project:
    created = START + timedelta(hours=hours)
    return Project(id=name, slug=slug, goal="build it", created_at=created)


def _sprint(iteration: int, note: str = "") -> Sprint:
    return Sprint(
        run="r", iteration=iteration, project="p", goal="build it", note=note, changed_at=START
    )


async def test_a_session_is_kept_once(projects: SqlProjects) -> None:
    first = await projects.add_session(_session("s"))
    again = await projects.add_session(first.model_copy(update={"title": "other"}))
    assert again == first == await projects.session("s")
    assert await projects.session("none") is None


async def test_sessions_come_newest_first(projects: SqlProjects) -> None:
    for hours, name in enumerate(["a", "b", "c"]):
        await projects.add_session(_session(name, hours=hours))
    assert [session.id for session in await projects.sessions(limit=2)] == ["c", "b"]


async def test_a_session_is_closed_once(projects: SqlProjects) -> None:
    await projects.add_session(_session("s"))
    closed = await projects.close_session("s", at=START + timedelta(days=1))
    again = await projects.close_session("s", at=START + timedelta(days=2))
    assert again == closed
    assert (closed.state, closed.closed_at) == ("closed", START + timedelta(days=1))


async def test_an_unknown_session_is_not_closed(projects: SqlProjects) -> None:
    with pytest.raises(NotFound, match="no session 'none'"):
        await projects.close_session("none", at=START)


async def test_a_taken_slug_gets_a_number(projects: SqlProjects) -> None:
    added = [await projects.add_project(_project(name, "cache")) for name in ("a", "b", "c")]
    assert [project.slug for project in added] == ["cache", "cache-2", "cache-3"]
    assert await projects.project("cache-2") == await projects.project("b") == added[1]


async def test_a_project_is_kept_once(projects: SqlProjects) -> None:
    added = await asyncio.gather(
        *(projects.add_project(_project("same", "cache")) for _ in range(6))
    )
    assert len(set(added)) == 1
    assert list(await projects.projects()) == [added[0]]


async def test_an_id_wins_over_a_slug_of_the_same_name(projects: SqlProjects) -> None:
    await projects.add_project(_project("one", "two"))
    await projects.add_project(_project("two", "three", hours=1))
    found = await projects.project("two")
    assert found is not None
    assert found.id == "two"
    assert await projects.project("none") is None


async def test_a_sprint_is_replaced_by_run_and_iteration(projects: SqlProjects) -> None:
    for sprint in (_sprint(2), _sprint(1), _sprint(2, "half way")):
        await projects.put_sprint(sprint)
    assert await projects.sprint("r", 2) == _sprint(2, "half way")
    assert await projects.sprint("r", 3) is None
    assert [sprint.iteration for sprint in await projects.sprints("r")] == [1, 2]
