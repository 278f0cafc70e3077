"""A team changes a real repository, driven over HTTP alone: start, follow, look, take the patch."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.definitions.example_files import lay_out
from perdure.domain.projects.records import Session
from perdure.interfaces.definitions import example_folder

LOOPS = "/api/v1/loops"
EXAMPLE = example_folder("team-change")


@pytest.fixture
async def door(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """An installation whose default model plays the team of the example."""
    address = server.client.service_client.config.target_host
    script = yaml.safe_load((EXAMPLE / "script.yaml").read_text("utf-8"))
    async with (
        scripted(tmp_path / "home", address, script) as site,
        site.worker(),
        served(site) as made,
    ):
        yield made


async def run_in(folder: Path, *words: str, given: bytes = b"") -> int:
    """The exit code of a program in a folder."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate(given)
    assert process.returncode is not None
    return process.returncode


async def suite(folder: Path) -> int:
    """The exit code of the repository's own tests."""
    return await run_in(
        folder, sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:randomly", "."
    )


@pytest.mark.long
async def test_a_team_is_led_over_http_alone(door: Rest, tmp_path: Path) -> None:
    await lay_out(EXAMPLE, tmp_path / "example")
    repository = tmp_path / "example" / "repository"
    spec = {
        "kind": "roles",
        "goal": "No cent is lost when a bill does not come out even; a bill for nobody is refused.",
        "workspace": str(repository),
        "roles": {"definition": "harness"},
        "learn": False,
        "recall": False,
    }
    run = await door.start(spec)
    result = await door.ended(run)
    assert (result["outcome"], result["reason"]) == ("accepted", "approved"), result

    (found,) = (await door.client.get(f"{LOOPS}?definition=harness")).json()["items"]
    assert (found["id"], found["definition"]) == (run, "harness")
    lines = (await door.client.get(f"{LOOPS}/{run}/iterations")).json()["items"]
    assert [line["decision"] for line in lines] == ["continue", "accept"]
    first = (await door.client.get(f"{LOOPS}/{run}/iterations/1")).json()["record"]
    assert [stage["name"] for stage in first["stages"]] == ["plan", "code", "review"]
    figures = (await door.client.get(f"{LOOPS}/{run}/metrics")).json()
    assert figures["verdicts"] == {"approved": 1, "rejected": 1}
    assert figures["rework"] == 1
    assert figures["stages"]["coder"] == {"completed": 2}

    assert await suite(repository) == 1  # the user's files are as they were
    artifacts = result["artifacts"]
    assert isinstance(artifacts, list)
    (ref,) = [item["ref"] for item in artifacts if item["kind"] == "patch"]
    patch = await door.client.get(f"{LOOPS}/{run}/artifacts/{ref}")
    assert patch.headers["content-disposition"] == "attachment"
    assert await run_in(repository, "git", "apply", "-", given=patch.content) == 0
    assert await suite(repository) == 0


async def test_an_unknown_session_is_not_found_and_parameters_have_paths(door: Rest) -> None:
    spec = {"kind": "roles", "goal": "g", "roles": {"definition": "harness"}}
    unknown = {**spec, "roles": {"definition": "harness", "session": "nobody"}}
    assert (await door.client.post(LOOPS, json=unknown)).status_code == 404
    wrong = {**spec, "roles": {"definition": "harness", "parameters": {"speed": 1}}}
    answer = await door.client.post(LOOPS, json=wrong)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"].startswith("roles.parameters")
    typo = {**spec, "roles": {"definition": "harnes"}}
    answer = await door.client.post(LOOPS, json=typo)
    assert answer.status_code in {404, 422}
    assert "harness" in answer.text


async def test_a_closed_session_takes_no_runs(door: Rest) -> None:
    sessions = door.api.services.sessions
    now = datetime.now(UTC)
    await sessions.add_session(Session(id="s1", title="t", created_at=now))
    await sessions.close_session("s1", at=now)
    spec = {"kind": "roles", "goal": "g", "roles": {"definition": "harness", "session": "s1"}}
    answer = await door.client.post(LOOPS, json=spec)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed"), answer.text
