"""Following a run over a death of the services: it goes on, or the restart is offered."""

import pytest

from perdure.interfaces.cli import follow
from perdure.interfaces.services import RuntimeView
from tests.interfaces.cli.memory import ENDPOINTS, FakePart, FakeRuntime, Installation
from tests.interfaces.cli.samples import RUN


def services(server: str = "running") -> FakeRuntime:
    return FakeRuntime(
        parts=(FakePart("temporal", server), FakePart("worker")), endpoints=ENDPOINTS
    )


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "POLL_S", 0.01)
    monkeypatch.setattr(follow, "GONE_AFTER_S", 0.05)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_is_followed_over_a_death_of_its_services(
    perdure: Installation, terminal: bool
) -> None:
    perdure.gateway.outages = 1
    perdure.states = [services(), None, services("restarting"), services()]
    assert perdure.run("watch", RUN, terminal=terminal) == 0
    told = perdure.out + perdure.err
    assert "are being started again" in told
    assert told.count("0.73") == 1, "nothing is told twice"
    assert "accepted" in told


def test_programs_get_each_event_once(perdure: Installation) -> None:
    perdure.gateway.outages = 1
    perdure.states = [services(), None, services()]
    assert perdure.run("watch", RUN, "--json") == 0
    assert perdure.out.count('"run_started"') == 1


@pytest.mark.parametrize(
    ("states", "cure"),
    [
        pytest.param(
            [services(), None],
            f"Start them with `perdure up --detach`, then `perdure watch {RUN}`.",
            id="gone for good",
        ),
        pytest.param([None], None, id="never ours"),
        pytest.param([services()], None, id="they serve, and nobody answers"),
    ],
)
def test_what_does_not_come_back_is_told(
    perdure: Installation, states: list[RuntimeView | None], cure: str | None
) -> None:
    perdure.gateway.outages = 3
    perdure.states = states
    assert perdure.run("watch", RUN) not in {0, 1}
    assert "The server is away." in perdure.err
    told = " ".join(perdure.err.split())
    assert ("are gone. The run is kept" in told) == (cure is not None)
    assert (cure or "") in told
