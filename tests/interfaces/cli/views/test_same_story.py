"""What `watch`, `history` and the result say of one run is the same."""

import re
from pathlib import Path

from installation import Installation
from telling import told

from perdure.interfaces.cli.views.history import history_view, record_line
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.result import done_line, result_view
from perdure.interfaces.submission import store
from tests.definitions.test_ready_made import example


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
