"""The product page by one real model, called through `anthropic` and through `openai`."""

from pathlib import Path

import pytest
import yaml
from embedded import embedded_model
from installation import installation
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.llm.embedded_facts import MAX_OUTPUT, WINDOW, embedded_available

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not embedded_available().ok, reason="the model's wheels are not installed"),
]

ROOT = Path(__file__).parents[2]
TASK = ROOT / "perdure/definitions/tasks/product-page.yaml"
SHORT = {"small": True, "tools": False, "judges": False}
FITS = {"window": WINDOW, "max_output": MAX_OUTPUT, **SHORT}
SHEET = {
    "models": {
        "anthropic:engine": {
            "input_per_million": 0,
            "output_per_million": 0,
            "sampling": True,
            **FITS,
        }
    }
}
# One run in thirty of this model falls short of the page; three in a row are no chance.
TRIES = 3


@pytest.mark.parametrize(
    "model",
    [
        "anthropic:engine",
        "compat:engine/smollm2",
        pytest.param(["compat:gone/x", "anthropic:engine"], id="a chain over both"),
    ],
)
async def test_the_page_is_accepted(
    server: WorkflowEnvironment, tmp_path: Path, model: str | list[str]
) -> None:
    task = yaml.safe_load(TASK.read_text(encoding="utf-8"))
    task |= {"models": {"executor": model}, "budget": {"active_time": 3_600}}
    home = tmp_path / "home"
    home.mkdir()
    (home / "prices.yaml").write_text(yaml.safe_dump(SHEET), encoding="utf-8")
    address = server.client.service_client.config.target_host
    async with embedded_model(tmp_path / "model") as url:
        given = {
            "anthropic_base_url": url,
            "anthropic_api_key": "none",
            "providers": {
                "engine": {"url": f"{url}/v1", "free": True, **FITS},
                "gone": {"url": "http://127.0.0.1:9/v1", "free": True, **FITS},
            },
        }
        async with installation(home, address, **given) as site, site.worker():  # pyright: ignore[reportArgumentType]  (settings by name)
            result = await site.run(task)
            for _ in range(TRIES - 1):
                if result.outcome != "accepted":
                    result = await site.run(task)
    assert (result.outcome, result.reason) == ("accepted", "quality_met"), result.explanation
    assert result.best is not None
    assert result.best.score == 1.0
    assert result.spend.tokens > 0
    assert {item.usage.output_tokens > 0 for item in result.iterations} == {True}
