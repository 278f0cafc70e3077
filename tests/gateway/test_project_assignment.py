"""A run of roles belongs to a session and a project: the ones it names, or new ones."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.projects.records import Project, Session
from perdure.domain.roles.spec import RolesSpec
from perdure.gateway.project_assignment import Settling

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def settling(stores: Stores) -> Settling:
    return Settling(sessions=stores.sessions, projects=stores.projects, now=lambda: NOW)


def _spec(session: str | None = None, project: str | None = None) -> RolesSpec:
    roles = {"definition": "harness", "session": session, "project": project}
    return RolesSpec.model_validate({"kind": "roles", "goal": "Build a cache!", "roles": roles})


async def _settled(settling: Settling, spec: RolesSpec, run: str = "roles-a") -> RolesSpec:
    settled = await settling.settle(spec, run)
    assert isinstance(settled, RolesSpec)
    return settled


async def test_a_run_that_names_nothing_gets_its_own(settling: Settling, stores: Stores) -> None:
    settled = await _settled(settling, _spec())
    session = await stores.sessions.session(settled.roles.session or "")
    project = await stores.projects.project(settled.roles.project or "")
    assert session is not None
    assert project is not None
    assert (session.title, session.state) == ("headless", "open")
    assert (project.slug, project.goal) == ("build-a-cache", "Build a cache!")


async def test_a_repeated_start_finds_the_same(settling: Settling, stores: Stores) -> None:
    first = await _settled(settling, _spec())
    assert await _settled(settling, _spec()) == first
    other = await _settled(settling, _spec(), run="roles-b")
    assert other.roles.session != first.roles.session
    assert [project.slug for project in await stores.projects.projects()] in (
        ["build-a-cache", "build-a-cache-2"],
        ["build-a-cache-2", "build-a-cache"],
    )


@pytest.mark.parametrize("name", ["p1", "cache"], ids=["by id", "by slug"])
async def test_named_ones_are_taken(settling: Settling, stores: Stores, name: str) -> None:
    await stores.sessions.add_session(Session(id="s1", title="mine", created_at=NOW))
    await stores.projects.add_project(Project(id="p1", slug="cache", goal="g", created_at=NOW))
    settled = await _settled(settling, _spec("s1", name))
    assert (settled.roles.session, settled.roles.project) == ("s1", "p1")


async def test_a_refused_start_leaves_nothing_behind(settling: Settling, stores: Stores) -> None:
    with pytest.raises(NotFound, match="no session 'gone'"):
        await settling.settle(_spec("gone"), "r")
    with pytest.raises(NotFound, match="no project 'gone'"):
        await settling.settle(_spec(project="gone"), "r")
    assert (await stores.sessions.sessions(), await stores.projects.projects()) == ([], [])


async def test_a_closed_session_takes_no_runs(settling: Settling, stores: Stores) -> None:
    await stores.sessions.add_session(Session(id="s1", title="mine", created_at=NOW))
    await stores.sessions.close_session("s1", at=NOW)
    with pytest.raises(NotAllowed, match="session s1 is closed"):
        await settling.settle(_spec("s1"), "r")
    assert await stores.projects.projects() == []


async def test_other_kinds_stay_as_they_are(settling: Settling, stores: Stores) -> None:
    spec = AgentSpec(kind="agent", goal="look")
    assert await settling.settle(spec, "r") is spec
    assert await stores.sessions.sessions() == []
