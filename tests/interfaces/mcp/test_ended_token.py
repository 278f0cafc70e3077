"""Clients that lost their token while they waited, or while a person was asked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.elicitation import AcceptedElicitation
from pydantic import BaseModel

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.access import ApiToken, Credentials, digest_of
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.domain.run.status import RunStatus
from perdure.interfaces.mcp import runs
from perdure.interfaces.mcp.handler import McpSite

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENT = Credentials(id="00c0ffee", secret="s" * 43)
HEADERS = {"authorization": f"Bearer {SENT.text}"}
GATE = Gate(id="g1", kind="question", prompt="Tea?", choices=("tea", "coffee"), opened_at=NOW)


@dataclass
class Services:
    """A store of one token, and a gateway that keeps what it is sent."""

    kept: ApiToken
    sent: list[tuple[str, Answer]] = field(default_factory=list)
    blobs: None = None

    @property
    def access(self) -> "Services":
        return self

    @property
    def gateway(self) -> "Services":
        return self

    async def token(self, token_id: str) -> ApiToken:
        return self.kept

    async def note_use(self, token_id: str, *, at: datetime) -> None:
        return None

    async def verb(self, run: str, message: Answer) -> None:
        self.sent.append((run, message))


@pytest.fixture
def services() -> Services:
    return Services(
        ApiToken(
            id=SENT.id,
            name="agent",
            scopes=("answer",),
            digest=digest_of(SENT.secret),
            created_at=NOW,
        )
    )


@pytest.fixture
def site(services: Services) -> McpSite:
    @asynccontextmanager
    async def opened(start: bool) -> AsyncGenerator[Any]:
        yield services

    loops: Any = None
    return McpSite(
        opened=opened,
        loops_of=lambda services, by: loops,
        user="tester",
        now=lambda: NOW,
        version="0",
        tokens=True,
    )


async def test_nobody_waits_on_with_a_token_that_ended(
    services: Services, site: McpSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PROGRESS_S", 0)
    monkeypatch.setattr(runs, "POLL_S", 0)
    seen: list[str] = []

    async def status(run: str) -> RunStatus:
        seen.append(run)
        common = {
            "id": run,
            "kind": "agent",
            "goal": "g",
            "phase": "working",
            "lifecycle": "running",
        }
        return RunStatus.model_validate({**common, "budget": {"limits": {}}})

    async def report_progress(*_told: object) -> None:
        if len(seen) == 3:
            services.kept = services.kept.model_copy(update={"revoked_at": NOW})

    context: Any = SimpleNamespace(
        headers=HEADERS, report_progress=report_progress, input_responses=None
    )
    desk: Any = SimpleNamespace(status=status, token=services.kept)
    with pytest.raises(NotAllowed, match="was revoked"):
        await runs.wait(context, site, desk, "agent-a-1", seconds=60)
    assert len(seen) == 3


@pytest.mark.parametrize("revoked", [False, True])
async def test_an_answer_counts_only_while_the_token_does(
    revoked: bool, services: Services, site: McpSite
) -> None:
    async def elicit(message: str, form: type[BaseModel]) -> AcceptedElicitation[BaseModel]:
        if revoked:
            services.kept = services.kept.model_copy(update={"revoked_at": NOW})
        return AcceptedElicitation(data=form(choice="tea"))

    context: Any = SimpleNamespace(headers=HEADERS, protocol_version="2025-06-18", elicit=elicit)
    async with site.desk(HEADERS, scope="read") as desk:
        if revoked:
            with pytest.raises(NotAllowed, match="was revoked"):
                await runs.ask_person(context, site, desk, "agent-a-1", GATE)
            assert services.sent == []
        else:
            assert await runs.ask_person(context, site, desk, "agent-a-1", GATE)
            assert [(run, sent.choice) for run, sent in services.sent] == [("agent-a-1", "tea")]
