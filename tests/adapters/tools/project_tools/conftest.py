"""Calls of the tools over real stores, by runs that belong to one session or another."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.tools.builtin import builtin_tools, kept_tools
from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, ToolOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A run with what it belongs to; `key` tells its calls apart."""

    host: LocalToolHost
    run: str = "roles-a"
    session: str = "session-a"
    project: str = "project-a"
    iteration: int = 1
    stage: str = "coder"

    async def call(self, tool: str, /, *, key: str = "k", **arguments: object) -> ToolOutput:
        """One call, with everything granted."""
        names = tuple(fact.name for fact in await self.host.catalog())
        grant = ToolGrant(
            root="/", level="full", allowed=names, session=self.session, project=self.project
        )
        envelope = ToolInvocation.model_validate(
            {
                "run": self.run,
                "call_id": key,
                "idempotency_key": f"{self.run}/{self.iteration}/{key}",
                "name": tool,
                "arguments": arguments,
                "conversation": f"head of {self.run}",
                "iteration": self.iteration,
                "stage": self.stage,
            }
        )
        return await self.host.call(envelope, grant)

    async def ok(self, tool: str, /, *, key: str = "k", **arguments: object) -> str:
        """One call that must work; gives its text."""
        output = await self.call(tool, key=key, **arguments)
        assert output.outcome == "ok", output.text
        return output.text


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def host(stores: Stores) -> LocalToolHost:
    return LocalToolHost((*builtin_tools(stores.blobs, stores.artifacts), *kept_tools(stores)))


@pytest.fixture
def caller(host: LocalToolHost) -> Caller:
    return Caller(host=host)


@pytest.fixture
def strangers(host: LocalToolHost) -> dict[str, Caller]:
    """Runs that share nothing with the caller."""
    return {
        "another session and project": Caller(
            host=host, run="roles-b", session="session-b", project="project-b"
        ),
        "a run that stands alone": Caller(host=host, run="agent-c", session="", project=""),
        "ids in the wrong place": Caller(
            host=host, run="project-a", session="project-a", project="session-a"
        ),
    }
