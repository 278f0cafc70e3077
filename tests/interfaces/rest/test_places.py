"""No answer over REST names a folder of the server, whatever breaks behind it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from fastapi.routing import APIRoute
from rest import TASK, Rest

from perdure.interfaces.rest.app import ROUTERS

LOOPS = "/api/v1/loops"


def paths(run: str) -> Iterator[str]:
    """Every reading path, with a run and first of everything in it."""
    given = {"{run}": run, "{gate}": "g1", "{iteration}": "1", "{name}": "pair", "{ref}": "0" * 64}
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
                path = route.path
                for name, value in given.items():
                    path = path.replace(name, value)
                if not path.endswith(("/events", "/readyz")):  # a stream; one that waits
                    yield path


def break_blobs(home: Path) -> None:
    for blob in (home / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
            blob.mkdir()


def break_database(home: Path) -> None:
    with closing(sqlite3.connect(home / "perdure.sqlite")) as connection, connection:
        for table in ("runs", "iterations", "attempts", "workspaces", "api_starts"):
            connection.execute(f"DROP TABLE {table}")


def places_in(answer: httpx2.Response, home: Path) -> list[str]:
    known = (str(home), str(Path(__file__).parents[3]), "site-packages", "Traceback")
    return [place for place in known if place in answer.text]


@pytest.mark.long
async def test_no_error_names_a_folder_of_the_server(rest: Rest) -> None:
    home = rest.site.home
    (home / "loops").mkdir(exist_ok=True)
    (home / "loops" / "odd.yaml").write_text(": no yaml : {")
    run = await rest.start(TASK)
    await rest.ended(run)
    statuses: set[int] = set()
    for damage in (None, break_blobs, break_database):
        if damage is not None:
            damage(home)
        for path in paths(run):
            answer = await rest.client.get(path)
            statuses.add(answer.status_code)
            assert places_in(answer, home) == [], (path, answer.text)
        for body in (TASK, TASK | {"goal": 7}, TASK | {"models": "x"}, TASK | {"goal": "file:a"}):
            answer = await rest.client.post(LOOPS, json=body)
            assert places_in(answer, home) == [], (body, answer.text)
    assert {200, 404, 503} <= statuses
