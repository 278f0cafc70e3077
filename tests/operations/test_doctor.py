"""`doctor` in an outage: it names what is wrong with the store, and looks at all else."""

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from enclosure import needs_bubblewrap
from full_store import full_store
from object_store import Faulty, faulty, made_bucket, s3_server
from postgresql import postgresql_server, postgresql_url
from sqlalchemy import make_url

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores import sqlite
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.interfaces.services import Check
from perdure.local_services.processes import process_ref
from perdure.local_services.state import PartState, PartStatus
from perdure.operations import doctor
from perdure.operations.doctor import UNREACHED, diagnose
from tests.local_services.support import write

__all__ = ["faulty", "postgresql_server", "postgresql_url", "s3_server"]

ALWAYS = {
    "python", "user", "versions", "settings", "telemetry", "open runs", "disk", "sandbox", "stores",
    "claude", "embedded model", "services", "search attributes", "secrets",
}  # fmt: skip
NEEDS_THE_STORE = {
    "rest api", "host", "queues", "queue tasks", "deployment", "runs", "failing runs", "notices",
    "encryption", "schedules", "retention", "model rates", "fairness", "clocks",
}  # fmt: skip
NOWHERE = "postgresql://perdure:secret@127.0.0.1:9/perdure"
Outage = Callable[[Path], AbstractContextManager[object]]


@contextmanager
def locked(home: Path) -> Generator[None]:
    holder = sqlite3.connect(home / "perdure.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.close()


@contextmanager
def full(_home: Path) -> Generator[None]:
    with full_store() as store:
        store.full = True
        yield


@contextmanager
def no_blobs(home: Path) -> Generator[None]:
    blobs = home / "blobs"
    for folder in blobs.iterdir():
        folder.rmdir()
    blobs.rmdir()
    blobs.touch()
    yield


@contextmanager
def damaged(home: Path) -> Generator[None]:
    for file in home.glob("perdure.sqlite*"):
        file.write_bytes(b"no database " * 1_000)
    yield


def nobody(**_given: object) -> AbstractContextManager[object]:
    raise ServiceUnavailable("No server answers.", cure="Start one.")


async def looked(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in diagnose(settings, nobody)}  # type: ignore[arg-type]


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 100)
    made = tmp_path / "home"
    await (await open_stores(made)).close()
    return made


@pytest.mark.parametrize(
    ("outage", "url", "says"),
    [
        pytest.param(locked, None, "was locked by another process", id="locked"),
        pytest.param(full, None, "is full", id="full"),
        pytest.param(no_blobs, None, "cannot be opened: ", id="no blobs"),
        pytest.param(
            lambda _: nullcontext(), NOWHERE, "cannot be reached", id="PostgreSQL stopped"
        ),
    ],
)
async def test_an_absent_store_is_named_and_all_else_is_looked_at(
    home: Path, outage: Outage, url: str | None, says: str
) -> None:
    with outage(home):
        checks = await looked(Settings.load(home=home, database_url=url))
    store = checks["stores"]
    assert (store.state, says in store.found) == ("failed", True), store
    assert "secret" not in store.found
    assert "nothing has to be restarted" in store.cure
    assert set(checks) == ALWAYS | NEEDS_THE_STORE
    assert all(checks[name].found == "not looked at: the store is away" for name in NEEDS_THE_STORE)


@pytest.mark.long
async def test_a_store_that_refuses_the_login_does_not_heal_by_itself(
    home: Path, postgresql_url: str
) -> None:
    url = make_url(postgresql_url).set(drivername="postgresql+psycopg", username="nobody-here")
    text = url.render_as_string(hide_password=False)
    store = (await looked(Settings.load(home=home, database_url=text)))["stores"]
    assert (store.state, "refused the login" in store.found) == ("failed", True), store
    assert "restart all workers and APIs" in store.cure
    assert "nothing has to be restarted" not in store.cure


async def test_a_home_that_cannot_be_made_is_no_new_installation(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    checks = await looked(Settings.load(home=tmp_path / "file" / "home"))

    assert checks["stores"].state == "failed"
    assert f"{tmp_path / 'file'} is no folder to write to" in checks["stores"].found
    assert "PERDURE_HOME" in checks["stores"].cure


@needs_bubblewrap
async def test_who_may_use_the_network_is_told(home: Path) -> None:
    may: dict[str, Any] = {"home": home, "sandbox_network": ("npm",)}

    granted = (await looked(Settings.load(allow_commands=("npm", "pytest"), **may)))["sandbox"]
    useless = (await looked(Settings.load(allow_commands=("pytest",), **may)))["sandbox"]

    assert granted.found == "bubblewrap works; these programs may use the network: npm"
    assert useless.state == "warning"
    assert "names what may not run: npm" in useless.found


async def test_a_damaged_store_is_no_store_that_comes_back(home: Path) -> None:
    with damaged(home):
        checks = await looked(Settings.load(home=home))
    assert checks["stores"].state == "failed"
    assert "is not an SQLite database" in checks["stores"].found
    assert "Runs wait for it" not in checks["stores"].cure


async def test_a_file_below_a_folder_named_postgres_is_no_database_server(tmp_path: Path) -> None:
    home = tmp_path / "postgres"
    await (await open_stores(home)).close()
    checks = await looked(Settings.load(home=home))
    assert checks["stores"].found == "SQLite, can be written, no runs yet"
    assert checks["clocks"].found.startswith("nothing to compare with")


async def test_a_store_is_tried_by_writing_and_nothing_is_left(home: Path) -> None:
    checks = await looked(Settings.load(home=home))
    assert checks["stores"].found == "SQLite, can be written, no runs yet"
    assert checks["server"].found == "No server answers."
    files = {path.name for path in home.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith("perdure.sqlite")} == set()
    with closing(sqlite3.connect(home / "perdure.sqlite")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM verdicts").fetchone() == (0,)


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:1", "connection refused"), ("https://x.test", "is no HOST:PORT")],
)
async def test_a_named_server_that_is_not_reached_is_a_problem_told_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    settings = Settings.load(home=home)
    found = [check async for check in diagnose(settings, nobody)]  # type: ignore[arg-type]
    (server,) = [check for check in found if check.name == "server"]
    assert server.state == "failed"
    assert why in server.found
    assert [check for check in found if server.cure == check.cure] == [server]
    unseen = [check.name for check in found if check.found == UNREACHED]
    assert {"search attributes", "queues"} <= set(unseen)


@pytest.mark.parametrize("broken", ["_user", "disk", "_services", "_attributes", "stores", "api"])
async def test_a_look_that_breaks_hides_no_other(
    home: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_given: object) -> Check:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(doctor, broken, breaks)
    checks = await looked(Settings.load(home=home))
    unseen = [check for check in checks.values() if check.found.startswith("not to be seen: ")]
    assert [check.state for check in unseen] == ["warning"]
    assert "Input/output error" in unseen[0].found
    assert set(checks) >= ALWAYS


async def test_an_object_store_is_tried_and_what_is_not_there_yet_is_said(
    home: Path, faulty: Faulty, s3_server: str
) -> None:
    before = await open_stores(home)
    await before.blobs.put(b"of before")
    await before.close()
    url = f"s3://{made_bucket(s3_server)}/x"
    settings = Settings.load(home=home, blobs=url)
    found = (await looked(settings))["blobs"]
    told = f"{url}, can be written; those of before are read where they were written"
    assert (found.state, found.found) == ("ok", told)
    faulty.away()
    away = (await looked(settings))["blobs"]
    assert (away.state, "AWS_ENDPOINT_URL" in away.cure) == ("failed", True)
    assert "nothing has to be restarted" in away.cure


@pytest.mark.parametrize(
    ("status", "part", "state", "said"),
    [
        ("starting", "starting", "warning", "starting: worker starting"),
        ("stopping", "stopped", "warning", "stopping: worker stopped"),
        ("ready", "restarting", "failed", "worker restarting; 127.0.0.1:1"),
    ],
)
async def test_services_that_start_or_stop_have_not_failed(
    home: Path, status: str, part: PartStatus, state: str, said: str
) -> None:
    parts = (PartState(name="worker", status=part),)
    write(home, supervisor=process_ref(os.getpid()), status=status, parts=parts)
    found = (await looked(Settings.load(home=home)))["services"]
    assert (found.state, found.found) == (state, said)
    assert "perdure logs" in found.cure


@pytest.mark.parametrize(
    ("model", "state", "told"),
    [
        (None, "warning", "the default model is the embedded one"),
        ("local", "warning", "the default model is the embedded one"),
        ("openai:gpt-5.1", "ok", "the default model is openai:gpt-5.1"),
        ("claude-opus-4-8", "warning", "the default model is claude-opus-4-8"),
    ],
)
async def test_the_default_model_is_told_as_it_is_set(
    home: Path, monkeypatch: pytest.MonkeyPatch, model: str | None, state: str, told: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    found = (await looked(Settings.load(home=home, model=model)))["claude"]
    assert (found.state, found.found) == (state, f"no ANTHROPIC_API_KEY; {told}")
