"""What `watch`, `history` and the result say of one run is the same."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from installation import Installation
from ready_made import example
from refining import drafts, spec
from telling import told

from perdure.domain.foundation.names import learn_run_id
from perdure.interfaces.cli.views.history import history_view, record_line
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.result import done_line, find_learned, result_view
from perdure.submission.loading import store


@pytest.mark.long
async def test_three_doors_tell_one_story(site: Installation, tmp_path: Path) -> None:
    submission = await example("release-notes", tmp_path)
    run = await site.gateway.start(await store(submission, site.parts.stores.blobs))
    result = await site.gateway.result(run)
    records = await site.records(run)
    lines = await told(site, run)

    watched = [re.sub(r"/\d+\]", "]", line) for line in lines if line.startswith("[iter")]
    assert watched == [record_line(record).plain for record in records]
    assert watched == [record_line(record).plain for record in result.iterations]
    shown = plain(history_view(records, result.best.iteration if result.best else None))
    assert all(line in shown for line in watched)

    spent = sum(record.usage.counted_tokens() for record in records)
    assert spent == result.spend.tokens
    assert f"{len(records)} iterations, {spent:,} tokens" in shown
    assert plain(done_line(result)) == lines[-1]
    assert lines[-1] in plain(result_view(result))


async def test_the_end_counts_what_was_learned(site: Installation) -> None:
    settings = {"max_iterations": 2, "plan": "off", "improvement_threshold": None}
    given = {**spec(quality_threshold=0.9, **settings), "learn": True}
    result = await site.run(given, {"replies": drafts(0.8, 0.6)})
    assert result.learnings_started
    await site.gateway.result(learn_run_id(result.id))
    services = SimpleNamespace(gateway=site.gateway, memory=site.parts.stores.memory)
    learned = await find_learned(services, result)  # pyright: ignore[reportArgumentType]
    assert learned is not None
    assert learned.count == 1
    assert learned.told.startswith("1 learning kept")
    assert ", 1 learning saved" in plain(done_line(result, learned=learned))
    silent = result.model_copy(update={"learnings_started": False})
    assert await find_learned(services, silent) is None  # pyright: ignore[reportArgumentType]
    other = result.model_copy(update={"id": "refine-not-yet-0001"})
    waiting = await find_learned(services, other)  # pyright: ignore[reportArgumentType]
    assert waiting is not None
    assert waiting.count is None
    assert "perdure watch learn-refine-not-yet-0001" in waiting.told
