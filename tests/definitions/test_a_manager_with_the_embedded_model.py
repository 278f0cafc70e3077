"""The tasks of a manager ask for more than the embedded model can do: what is said, and when."""

from pathlib import Path

import pytest
from delegating import books_of_the_tree_agree
from embedded import embedded_model
from installation import installation
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.definitions import DEFINITIONS, definitions
from perdure.submission.loading import load, store
from perdure.submission.types import Flags, Surroundings

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not embedded_available().ok, reason="the model's wheels are not installed"),
]

MANAGED = sorted(item.name for item in definitions() if item.kind == "delegation")
LETTER = """\
kind: delegation
goal: Say in one sentence what the letter in the input "letter" asks for.
context:
  letter: "Dear Ada, could you send me the blue paint by Friday? The wall is waiting. Yours, Tom"
tools: {access: minimal}
budget: {tokens: 20000, active_time: 90}
delegation:
  max_iterations: 3
  critique: {enabled: false}
  tools_factory: {enabled: false}
recall: false
learn: false
"""
SECONDS = 90
SLACK = 60  # on a busy machine a call takes a while to be cut off


async def test_a_task_without_tools_ends_honestly(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "letter.yaml").write_text(LETTER, encoding="utf-8")
    around = Surroundings(folder=tmp_path, definitions=DEFINITIONS, default_model="local")
    submission = load("letter.yaml", Flags(model="local"), surroundings=around)
    address = server.client.service_client.config.target_host
    async with (
        embedded_model(tmp_path / "model") as url,
        installation(tmp_path / "home", address, model_url=url) as site,
        site.worker(),
    ):
        spec = await store(submission, site.parts.stores.blobs)
        result = await site.gateway.result(await site.gateway.start(spec))
        assert result.reason in REASONS[result.outcome]
        assert result.reason not in ("internal", "invalid_input"), result.error
        assert result.iterations
        assert result.spend.by_model.keys() == {"local"}
        assert 0 < result.spend.tokens <= 20_000
        assert result.spend.active_time_s <= SECONDS + SLACK
        await books_of_the_tree_agree(site, result)
    assert result.partial == (result.outcome != "accepted")
    assert bool(result.output) or result.partial
    if result.output is None:
        assert "; this is " not in result.explanation


@pytest.mark.parametrize("name", MANAGED)
async def test_a_ready_made_one_is_refused_before_anything_is_spent(
    name: str, server: WorkflowEnvironment, tmp_path: Path
) -> None:
    given = {"code-feature": "feature"}.get(name, "question")
    flags = Flags(model="local", sets=(f"context.{given}=x", f"workspace={tmp_path}"))
    around = Surroundings(folder=tmp_path, definitions=DEFINITIONS, default_model="local")
    submission = load(name, flags, surroundings=around)
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address) as site:
        spec = await store(submission, site.parts.stores.blobs)
        with pytest.raises(InvalidInput, match="cannot choose tools by itself"):
            await site.gateway.start(spec)
