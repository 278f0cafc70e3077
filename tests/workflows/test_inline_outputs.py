"""The output where people look: in the return value of the workflow, and on its page."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from agent_runs import task
from delegating import completes, delegates, delegation, script, works
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.spec import Timing

TEMPORAL = Path(sys.executable).parent / "temporal"


async def said(site: Installation, *words: str) -> str:
    """What Temporal's own command line says of a run."""
    config = site.client.service_client.config
    process = await asyncio.create_subprocess_exec(
        str(TEMPORAL), "workflow", *words, "--address", config.target_host,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode()


async def test_the_output_is_in_the_return_value_and_on_the_page(site: Installation) -> None:
    run = await site.start(task(), {"replies": [{"text": "It is ![steel](http://x/y.png)."}]})
    result = await site.gateway.result(run)
    raw = await site.handle(run).result()
    assert isinstance(raw, dict)
    assert raw["output"] == result.output == "It is ![steel](http://x/y.png)."
    assert raw["output_ref"] == result.output_ref
    told = json.loads(await said(site, "result", "-w", run, "-o", "json"))
    assert told["result"]["output"] == result.output
    page = await said(site, "metadata", "-w", run)
    assert "### Result" in page
    assert "![" not in page, "whoever looks at the page fetches no picture"


@pytest.mark.parametrize("limit", [5, 0])
async def test_a_long_output_is_cut_beside_its_reference(
    server: WorkflowEnvironment, tmp_path: Path, limit: int
) -> None:
    address, timing = server.client.service_client.config.target_host, Timing(inline_output=limit)
    async with installation(tmp_path, address, timing=timing) as site, site.worker():
        run = await site.start(task(), {"replies": [{"text": "naïveté"}]})
        assert (await site.gateway.result(run)).output == "naïveté"
        raw = await site.handle(run).result()
        assert isinstance(raw, dict)
        assert (raw["output"], raw["excerpt"]) == (("naïv", True) if limit else (None, False))


@pytest.mark.long
async def test_a_run_above_reads_the_store(site: Installation) -> None:
    replies = (delegates("a"), works("a", "alabaster"), completes("All."))
    run = await site.start(delegation(), script(*replies))
    result = await site.gateway.result(run)
    child = next(iter(result.spend.by_child))
    assert "alabaster" in ((await site.gateway.result(child)).output or "")
    raw = await site.handle(child).result()
    assert isinstance(raw, dict)
    assert (raw["output"], raw["output_ref"] is not None) == (None, True)
