"""How doors write the audit trail: floods fold, and a store that is away delays nobody."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.installation.access import ApiToken, Credentials
from perdure.domain.run.audit import AuditEntry, AuditFilter
from perdure.domain.run.messages import Pause
from perdure.interfaces.audit_trail import OTHERS, AuditTrail

START = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
TOKEN = ApiToken(id="00c0ffee", name="page", scopes=("read",), digest="d", created_at=START)


@dataclass
class Kept:
    """A store that adds counts as the real one does."""

    found: dict[str, AuditEntry] = field(default_factory=dict)
    writes: int = 0
    away: bool = False

    async def put(self, entry: AuditEntry) -> None:
        if self.away:
            raise StoreAway("The database does not answer.")
        self.writes += 1
        known = self.found.get(entry.id)
        count = entry.count + (known.count if known else 0)
        self.found[entry.id] = entry.model_copy(update={"count": count})

    async def entries(self, wanted: AuditFilter) -> list[AuditEntry]:
        return list(self.found.values())

    async def mark(self) -> int:
        return 0

    async def forget(self, *, before: datetime) -> int:
        return 0


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trail(kept: Kept, clock: Clock) -> AuditTrail:
    return AuditTrail(kept, now=clock)


async def test_a_flood_of_refused_logins_is_few_writes(trail: AuditTrail, kept: Kept) -> None:
    for _ in range(1000):
        await trail.note_refused_login(None, interface="REST", address="address 10.0.0.9")
    (entry,) = kept.found.values()
    assert (entry.action, entry.outcome, entry.who) == ("login", "refused", "no token")
    assert entry.count == 512
    assert kept.writes == 10


async def test_addresses_beyond_a_number_are_one(trail: AuditTrail, kept: Kept) -> None:
    for number in range(2000):
        await trail.note_refused_login(
            "Bearer x", interface="REST", address=f"address 10.0.{number}"
        )
    assert len(kept.found) < 80
    assert any(OTHERS in entry.about for entry in kept.found.values())


async def test_a_wrong_secret_names_the_token_and_keeps_no_secret(
    trail: AuditTrail, kept: Kept
) -> None:
    shown = Credentials(id="00c0ffee", secret="s" * 43).text
    await trail.note_refused_login(f"Bearer {shown}", interface="MCP", address="address 10.0.0.9")
    (entry,) = kept.found.values()
    assert entry.who == "token 00c0ffee"
    assert "sss" not in entry.model_dump_json()


async def test_a_token_in_use_is_told_once_an_hour(
    trail: AuditTrail, kept: Kept, clock: Clock
) -> None:
    for _ in range(5):
        await trail.note_token_use(TOKEN, interface="REST", address="address 127.0.0.1")
    clock.now += timedelta(hours=1)
    await trail.note_token_use(TOKEN, interface="REST", address="address 127.0.0.1")
    assert kept.writes == 2
    assert {entry.who for entry in kept.found.values()} == {"page (00c0ffee)"}


async def test_a_verb_goes_on_while_the_store_is_away(trail: AuditTrail, kept: Kept) -> None:
    kept.away = True
    entry = await trail.note_message("r1", Pause(by="ann"))
    kept.away = False
    await trail.note_answer(entry)
    (found,) = kept.found.values()
    assert (found.action, found.outcome, found.run) == ("pause", "allowed", "r1")
