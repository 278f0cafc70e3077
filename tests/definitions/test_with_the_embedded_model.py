"""A ready-made task that the embedded model cannot master: its run ends honestly all the same."""

from pathlib import Path

import pytest
from embedded import embedded_model
from installation import installation
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.loading import load, store
from perdure.submission.types import Flags, Surroundings

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not embedded_available().ok, reason="the model's wheels are not installed"),
]

RESUME = """\
Maria Lopez, data engineer.
Skills: Python, SQL, Airflow, Docker.
2019 to 2024: Data engineer at Northwind, Madrid. Built pipelines in Airflow.
Education: BSc Computer Science, University of Sevilla, 2016.
"""
THRESHOLD = 0.8
STRATEGIES = ("detailed", "keyword-focused", "section by section")


async def test_a_resume_is_tried_in_three_ways_and_the_best_comes_back(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "cv.txt").write_text(RESUME, encoding="utf-8")
    sets = (
        "context.resume=file:cv.txt",
        "budget.active_time=3600",  # a slow machine is no reason to stop
        "agent.output_token_ceiling=1500",
        "learn=false",
    )
    around = Surroundings(folder=tmp_path, definitions=DEFINITIONS, default_model="local")
    submission = load("resume-parsing", Flags(model="local", sets=sets), surroundings=around)
    address = server.client.service_client.config.target_host
    async with (
        embedded_model(tmp_path / "model") as url,
        installation(tmp_path / "home", address, model_url=url) as site,
        site.worker(),
    ):
        spec = await store(submission, site.parts.stores.blobs)
        run = await site.gateway.start(spec)
        result = await site.gateway.result(run)
        costs = await site.gateway.costs(run)
    records = result.iterations
    assert result.best is not None, result.explanation
    score = result.best.score or 0.0
    assert result.quality_met == (score >= THRESHOLD)
    assert score == max(item.score or 0.0 for item in records)
    if not result.quality_met:
        assert (result.outcome, result.reason) == ("best_effort", "max_iterations")
        tried = zip(STRATEGIES, records, strict=True)
        assert all(name in (item.adaptation or "") for name, item in tried)
        assert result.open_findings
    assert result.output
    assert result.spend.tokens == sum(item.usage.counted_tokens() for item in records) > 0
    assert costs.total.usage.counted_tokens() == result.spend.tokens
