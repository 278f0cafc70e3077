"""Images and PDFs that a model was shown, on the page and over REST: shown, saved, never run."""

import base64
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from page_visit import visitor
from pictures import pdf, png
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

CHART, PAPER = png(40, 30), pdf(2)
HOSTILE = '"><script>alert(1)</script>.png'
TASK: dict[str, Any] = {
    "kind": "agent",
    "goal": "Say what the chart shows.",
    "learn": False,
    "recall": False,
    "context": {
        "chart": {"base64": base64.b64encode(CHART).decode(), "name": HOSTILE},
        "paper": {"base64": base64.b64encode(PAPER).decode(), "name": "paper.pdf"},
    },
}
SCRIPT = {"replies": [{"text": "It rises."}], "exhausted": "repeat_last"}
ADDRESS = re.compile(r'(?:src|href)="(/runs/[^"]+/iterations/1/attachments/[^"]+)"')


@pytest.fixture
async def seeing(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """An installation whose default model is shown images and PDFs."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SCRIPT) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


async def test_what_a_model_was_shown_is_seen_and_saved(seeing: Rest) -> None:
    run = await seeing.start(TASK)
    await seeing.ended(run)
    async with visitor(seeing, await seeing.token("read")) as person:
        page = await person.see(f"/runs/{run}/iterations/1/calls")
        assert "<script>alert" not in page
        image, linked, paper = ADDRESS.findall(page)[:3]
        assert image == linked != paper
        seen, saved = await person.client.get(image), await person.client.get(paper)
    assert (seen.content, seen.headers["content-type"]) == (CHART, "image/png")
    assert seen.headers["content-disposition"] == "inline"
    assert (saved.content, saved.headers["content-type"]) == (PAPER, "application/pdf")
    assert saved.headers["content-disposition"] == "attachment"
    for answer in (seen, saved):
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_only_what_the_run_itself_was_shown_is_given_out(seeing: Rest) -> None:
    run = await seeing.start(TASK)
    other = await seeing.start({**TASK, "context": {}})
    await seeing.ended(run)
    await seeing.ended(other)
    calls = (await seeing.client.get(f"/api/v1/loops/{run}/iterations/1/calls")).json()
    shown = [one for one in calls["items"][0]["prompt"][0]["blocks"] if one["type"] == "attachment"]
    ref = shown[0]["file"]["ref"]
    output = (await seeing.client.get(f"/api/v1/loops/{run}/result")).json()["output_ref"]
    base = "/api/v1/loops/{run}/iterations/{index}/attachments/{ref}"
    assert (await seeing.client.get(base.format(run=run, index=1, ref=ref))).content == CHART
    for refused in (
        base.format(run=other, index=1, ref=ref),
        base.format(run=run, index=2, ref=ref),
        base.format(run=run, index=1, ref=output),
        base.format(run=run, index=1, ref="sha256:" + "0" * 64),
        base.format(run=run, index=1, ref="..%2F..%2Fetc%2Fpasswd"),
        base.format(run="nobody", index=1, ref=ref),
    ):
        answer = await seeing.client.get(refused)
        assert answer.status_code == 404, (refused, answer.text)
        assert answer.json()["detail"]
    bound = await seeing.token("read", runs=(other,))
    headers = {"authorization": f"Bearer {bound}"}
    answer = await seeing.client.get(base.format(run=run, index=1, ref=ref), headers=headers)
    assert answer.status_code == 404
