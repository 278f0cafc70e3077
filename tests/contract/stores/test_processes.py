"""Several processes on one store, processes that are killed, and limits of the system."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from enclosure import needs_bubblewrap

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.budget.journal import Proceed
from perdure.domain.llm.usage import Usage
from tests.contract.stores.programs.die import ATTEMPT

PROGRAMS = Path(__file__).parent / "programs"
WRITERS = 4
WRITES = 15


async def run_program(
    name: str, *arguments: str, within: Sequence[str | Path] = ()
) -> tuple[int, str]:
    """Exit status and output; errors of the program stop the test."""
    process = await asyncio.create_subprocess_exec(
        *within,
        sys.executable,
        PROGRAMS / f"{name}.py",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors.decode()
    return process.returncode or 0, output.decode().strip()


@pytest.mark.long
async def test_four_processes_lose_no_write(database_url: str, tmp_path: Path) -> None:
    """They also make the database at once: all start on none."""
    home = tmp_path / "home"
    results = await asyncio.gather(
        *(
            run_program("write_many", str(home), database_url, f"writer-{n}", str(WRITES))
            for n in range(WRITERS)
        )
    )
    # Each of the shared calls has exactly one winner.
    assert sum(int(output) for _, output in results) == WRITES
    stores = await open_stores(home, database_url)
    try:
        rows = await stores.journal.rows("run")
        assert {row.state for row in rows if row.key.startswith("writer")} == {"answered"}
        assert len([row for row in rows if row.key.startswith("writer")]) == WRITERS * WRITES
        for n in range(WRITERS):
            account = await stores.journal.seal_and_sum(f"writer-{n}")
            assert account.usage == Usage(output_tokens=WRITES)
            assert len(await stores.records.records(f"writer-{n}")) == WRITES
        addresses = [address async for address, _, _ in stores.blobs.addresses()]
        assert len(addresses) == WRITERS * WRITES + WRITES
    finally:
        await stores.close()


@pytest.mark.parametrize("point", ["blob", "commit"])
async def test_a_kill_before_the_commit_leaves_an_open_attempt(tmp_path: Path, point: str) -> None:
    status, address = await run_program("die", str(tmp_path), point)
    assert status == -signal.SIGKILL
    stores = await open_stores(tmp_path)
    try:
        assert [row.state for row in await stores.journal.rows("run")] == ["started"]
        assert await stores.blobs.get_text(address) == "the reply"
        again = ATTEMPT.model_copy(update={"attempt": 2})
        assert isinstance(await stores.journal.begin(again), Proceed)
        account = await stores.journal.account(ATTEMPT.key)
        assert (account.unconfirmed, account.lost_attempts) == (ATTEMPT.estimate, 1)
    finally:
        await stores.close()


async def test_a_file_that_may_not_grow_is_a_store_error(tmp_path: Path) -> None:
    _, output = await run_program("file_limit", str(tmp_path))
    error, counts = output.splitlines()
    assert "cannot be written: File too large. Raise the limit on file size" in error
    assert counts == "1 0"


@needs_bubblewrap
async def test_a_store_in_use_is_read_on_a_disk_that_became_read_only(tmp_path: Path) -> None:
    stores = await open_stores(tmp_path)
    try:
        await stores.records.put_record("r", 1, "{}")
        read_only = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", tmp_path, tmp_path)
        _, output = await run_program("read_and_write", str(tmp_path), within=read_only)
    finally:
        await stores.close()
    found, error = output.splitlines()
    assert found == "['{}']"
    assert "read-only" in error
