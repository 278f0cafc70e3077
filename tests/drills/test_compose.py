"""The compose file without an engine: each service's command, run here with its environment."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
import yaml
from accepting import accepting
from composed import ROOT, Composed, plain_shell, recipe, run
from provider import Play, Provider
from waiting import eventually

from perdure.local_services.service_commands import temporal_binary

pytestmark = pytest.mark.slow
TASK = {"kind": "agent", "goal": "Say hello.", "learn": False}
ANSWER = "Hello from the worker of the compose file."


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def _over_tcp(url: str) -> AsyncGenerator[int]:
    """A port of this machine for a PostgreSQL that listens on a socket file alone."""
    path = Path(urlsplit(url).query.removeprefix("host=")) / ".s.PGSQL.5432"

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(path)
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(_copy(reader, to_server)),
                    asyncio.ensure_future(_copy(from_server, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            to_server.close()

    async with accepting(pass_on) as port:
        yield port


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


def _make_database(url: str, environment: dict[str, str]) -> None:
    """What the image of PostgreSQL makes of its variables."""
    with psycopg.connect(url, autocommit=True) as connection:
        user, word = environment["POSTGRES_USER"], environment["POSTGRES_PASSWORD"]
        connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{word}'")  # pyright: ignore[reportArgumentType, reportCallIssue]
        connection.execute(f"CREATE DATABASE {environment['POSTGRES_DB']} OWNER {user}")  # pyright: ignore[reportArgumentType, reportCallIssue]


def _server_words(composed: Composed) -> list[str]:
    """The dev server with the settings file of the compose file's server."""
    named = composed.local("temporal", "/ops/temporal-dynamic-config.yaml")
    assert named == composed.environment("temporal")["DYNAMIC_CONFIG_FILE_PATH"]
    flags = yaml.safe_load(Path(named).read_text("utf-8"))
    values = [f"{name}={json.dumps(value['value'])}" for name, (value,) in flags.items()]
    _, port = composed.places["temporal:7233"]
    return [
        *(str(temporal_binary()), "server", "start-dev", "--headless", "--port", str(port)),
        *(word for value in values for word in ("--dynamic-config-value", value)),
    ]


@asynccontextmanager
async def _services(folder: Path, postgresql: str) -> AsyncGenerator[tuple[Composed, Provider]]:
    """PostgreSQL, Temporal and the worker, as `docker compose up` starts them."""
    provider = Provider(folder / "provider.jsonl", [Play(text=ANSWER)])
    async with provider.serving(), _over_tcp(postgresql) as database:
        composed = Composed(
            folder,
            {"ANTHROPIC_API_KEY": "of-the-worker-alone", "ANTHROPIC_BASE_URL": provider.url},
            {
                "temporal:7233": ("127.0.0.1", _free_port()),
                "postgresql:5432": ("127.0.0.1", database),
                "api:8237": ("127.0.0.1", _free_port()),
            },
        )
        _make_database(postgresql, composed.environment("postgresql"))
        async with composed.up("temporal", *_server_words(composed)):
            # Twice: a job that failed half-way is started again.
            for _ in range(2):
                code, said = await composed.job("temporal-namespace")
                assert code == 0, said
            async with composed.up("worker") as worker:
                await eventually(lambda: composed.healthy("worker"), every=0.5)
                yield composed, provider
            assert worker.returncode == 0


async def _run_as_the_file_says(composed: Composed) -> dict[str, object]:
    """The command in the head of the file, from a shell without a key."""
    (_, (variables, words)) = recipe()
    published = {
        f"127.0.0.1:{outside}": f"127.0.0.1:{port}"
        for name, (_, port) in composed.places.items()
        for _, outside, inside in (composed.service(name.split(":")[0])["ports"][0].split(":"),)
        if inside == name.split(":")[1]
    }
    here = composed.folder / "shell"
    here.mkdir()
    (here / "task.yaml").write_text(json.dumps(TASK))
    shell = plain_shell(here)
    for name, value in variables.items():
        for outside, local in published.items():
            value = value.replace(outside, local)
        shell[name] = value
    assert not [name for name in shell if "KEY" in name or "ANTHROPIC" in name]
    code, said = await run([*words, "--json"], shell, here)
    assert code == 0, said
    return json.loads(said.splitlines()[-1])


async def _asked_over_http(composed: Composed, run: str) -> None:
    """The API of its profile: a token from the worker's container opens it."""
    words = ("perdure", "api", "token", "create", "me", "--scope", "operate", "--json")
    code, said = await composed.job("worker", *words)
    assert code == 0, said
    token = json.loads(said.splitlines()[-1])["token"]
    _, port = composed.places["api:8237"]
    async with (
        composed.up("api", PERDURE_API_PORT=str(port)) as api,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        await eventually(lambda: composed.healthy("api"), every=0.5)
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.get(f"/api/v1/loops/{run}/result")).status_code == 401
        found = await http.get(
            f"/api/v1/loops/{run}/result", headers={"Authorization": f"Bearer {token}"}
        )
        assert found.status_code == 200, found.text
        assert found.json()["outcome"] == "accepted"
    assert api.returncode == 0


async def test_a_shell_without_a_key_runs_on_the_compose_files_worker(
    tmp_path: Path, postgresql_url: str
) -> None:
    async with _services(tmp_path, postgresql_url) as (composed, provider):
        code, said = await composed.job("temporal-namespace", TEMPORAL_NAMESPACE="of-a-team")
        assert code == 0, said
        result = await _run_as_the_file_says(composed)
        assert result["outcome"] == "accepted", result
        assert len(provider.lines()) >= 1
        await _asked_over_http(composed, str(result["id"]))


async def test_the_server_of_the_file_is_of_the_version_that_is_drilled() -> None:
    code, said = await run([str(temporal_binary()), "--version"], plain_shell(ROOT), ROOT)
    assert code == 0
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    image = content["services"]["temporal"]["image"]
    assert f"(Server {image.rpartition(':')[2]}," in said
