"""A real Prometheus on the loopback interface, with the alerts of ops/ on a faster clock."""

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from waiting import eventually

ALERTS = Path(__file__).parents[2] / "ops" / "alerts.yaml"
PROGRAM = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROGRAM is None, reason="there is no prometheus on PATH: make prometheus-setup"
)
FASTER = 60
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION = re.compile(r"\b(\d+)([smhd])\b")


def faster(rules: str) -> str:
    """The rules with every duration a sixtieth as long; nothing else differs."""

    def shortened(found: re.Match[str]) -> str:
        return f"{int(found[1]) * SECONDS[found[2]] * 1000 // FASTER}ms"

    given = yaml.safe_load(rules)
    for group in given["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(
                r"\[[^\]]+\]", lambda at: DURATION.sub(shortened, at[0]), rule["expr"]
            )
            rule["for"] = DURATION.sub(shortened, rule["for"])
    return yaml.safe_dump(given)


class Prometheus:
    """Its HTTP API."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30)

    async def ready(self) -> bool:
        try:
            return (await self._client.get("/-/ready")).status_code == 200
        except httpx2.TransportError:
            return False

    async def asked(self, path: str, **parameters: str) -> Any:
        answer = await self._client.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = (await self.asked("alerts"))["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    async def fires(self, *names: str) -> bool:
        return set(names) <= await self.firing()

    async def scraped(self, *, seconds: int) -> bool:
        """Whether every target was read well for so long."""
        query = f"min(min_over_time(up[{seconds}s])) * min(count_over_time(up[1h])) >= {seconds}"
        return bool((await self.asked("query", query=query))["result"])

    async def close(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def prometheus(
    folder: Path, targets: Mapping[str, str], rules: str
) -> AsyncGenerator[Prometheus]:
    """Prometheus with one target per job."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "alerts.yaml").write_text(rules, "utf-8")
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target]}]}
            for job, target in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    assert PROGRAM is not None
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    made = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await eventually(made.ready)
        yield made
    finally:
        await made.close()
        process.terminate()
        await process.wait()
