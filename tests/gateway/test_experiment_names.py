"""Names of experiments: a whole id, a unique beginning of one, or the last."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.gateway import experiments
from perdure.gateway.experiments import Experiments

NOW = datetime(2026, 1, 2, tzinfo=UTC)
UNUSED: Any = None


async def test_the_oldest_of_many_experiments_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "KNOWN", 2)
    stores = await open_stores(tmp_path, None)
    try:
        store = stores.experiments()
        known = Experiments(store, server=UNUSED, starter=UNUSED, records=UNUSED, now=lambda: NOW)
        plan = Plan(name="n", arms=(Arm(name="a", task={}),))
        for number, id in enumerate(("first", "second", "third", "fourth", "fifth")):
            made = StoredExperiment(
                id=id, plan=plan, inputs=1, digest="d", created_at=NOW + timedelta(hours=number)
            )
            await store.create(made, [Entry(name="a")])
            if number == 0:
                with pytest.raises(NotFound, match="no experiment ''"):
                    await known.resolve("")
        assert await known.resolve("first") == "first"
        assert await known.resolve("sec") == "second"
        assert await known.resolve("@last") == "fifth"
        with pytest.raises(InvalidInput, match="the beginning of 3 experiments"):
            await known.resolve("f")
    finally:
        await stores.close()
