"""`doctor` on versions that serve side by side."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotFound, ServiceUnavailable
from perdure.domain.installation.deployment import Build, Deployment
from perdure.operations.doctor_server import deployment

NEW = Build(id="0.2.0-bbb", status="current", workers=1)
OLD = Build(id="0.1.0-aaa", status="draining", runs=3)


@dataclass
class Served:
    """Services of which only the deployment is there."""

    builds: tuple[Build, ...] | None
    serves: str | None = None
    others: Mapping[str, int] = field(default_factory=dict[str, int])

    def deployments(self) -> "Served":
        return self

    async def serving(self) -> str | None:
        return self.serves

    async def elsewhere(self) -> Mapping[str, int]:
        return self.others

    async def status(self) -> Deployment:
        if self.builds == ():
            raise NotFound("No worker has registered with the deployment", cure="Start one")
        if self.builds is None:
            raise ServiceUnavailable("The server keeps no versions of workers: off", cure="Upgrade")
        return Deployment(name="rolled", own=NEW.id, builds=self.builds)

    @asynccontextmanager
    async def connect(self, **_: object) -> AsyncGenerator["Served"]:
        yield self


@pytest.mark.parametrize(
    ("named", "address", "builds", "states", "found"),
    [
        (None, "server:7233", (), ["ok"], "pinned to no version"),
        ("rolled", None, (), ["ok"], "embedded services serve one version at a time"),
        ("rolled", "server:7233", None, ["warning"], "keeps no versions"),
        ("rolled", "server:7233", (NEW,), ["ok"], "0.2.0-bbb is current, 1 builds"),
        ("rolled", "server:7233", (NEW, OLD), ["warning", "ok"], "3 runs of 0.1.0-aaa wait"),
        ("rolled", "server:7233", (OLD,), ["warning", "warning"], "No build is current"),
    ],
    ids=["unset", "embedded", "unversioned", "well", "stranded", "none current"],
)
async def test_what_doctor_says_of_a_deployment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
    address: str | None,
    builds: tuple[Build, ...] | None,
    states: list[str],
    found: str,
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    settings = Settings.load(home=tmp_path, deployment=named)
    checks = [check async for check in deployment(settings, Served(builds).connect)]  # pyright: ignore[reportArgumentType]
    assert [check.state for check in checks] == states
    assert found in checks[0].found


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, "2 open runs are pinned to builds of the deployment former, and here "
         "PERDURE_DEPLOYMENT is not set"),
        ("rolled", "2 open runs are pinned to builds of the deployment former, and here "
         "PERDURE_DEPLOYMENT is rolled"),
    ],
)  # fmt: skip
async def test_runs_that_are_pinned_elsewhere_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None, found: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "server:7233")
    settings = Settings.load(home=tmp_path, deployment=named)
    served = Served((NEW,), others={"former": 2})
    checks = [check async for check in deployment(settings, served.connect)]  # pyright: ignore[reportArgumentType]
    (told,) = [check for check in checks if check.state == "warning"]
    assert told.found == found
    assert "PERDURE_DEPLOYMENT=former perdure deploy status" in told.cure


@pytest.mark.parametrize(
    ("named", "serves", "found", "cure"),
    [
        (None, "rolled", "gives new work to the deployment rolled alone", "--unversioned"),
        ("other", "rolled", "and here PERDURE_DEPLOYMENT is other", "perdure deploy promote"),
        ("rolled", "rolled", "0.2.0-bbb is current", ""),
        ("rolled", None, "0.2.0-bbb is current", ""),
    ],
)
async def test_whom_the_server_gives_new_work_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
    serves: str | None,
    found: str,
    cure: str,
) -> None:
    """Workers without a version look alive there, and get nothing."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "server:7233")
    settings = Settings.load(home=tmp_path, deployment=named)
    served = Served((NEW,), serves=serves)
    checks = [check async for check in deployment(settings, served.connect)]  # pyright: ignore[reportArgumentType]
    assert found in checks[0].found
    assert cure in checks[0].cure
    assert checks[0].state == ("warning" if cure else "ok")
    assert not (cure and named is None and checks[1:])


async def test_a_deployment_that_was_renamed_hides_nothing_of_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "server:7233")
    settings = Settings.load(home=tmp_path, deployment="renamed")
    served = Served((), serves="former", others={"former": 2})
    checks = [check async for check in deployment(settings, served.connect)]  # pyright: ignore[reportArgumentType]
    told = ["gives new work to the deployment former alone", "2 open runs", "No worker has"]
    assert all(part in check.found for part, check in zip(told, checks, strict=True))
