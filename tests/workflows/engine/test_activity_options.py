"""Steps that work besides their bookkeeping have the time for it; a repeat would do no better."""

import pytest

from perdure.adapters.bounded_process.process import SECONDS
from perdure.domain.llm.attachments import MOST_IN_A_CALL
from perdure.domain.run.spec import Placement
from perdure.workflows.engine.activity_options import opening_step

SITE = Placement(loops="loops", models="models", tools="tools")


@pytest.mark.parametrize("files", [0, 1, MOST_IN_A_CALL])
def test_a_run_opens_however_long_its_files_take_to_be_looked_into(files: int) -> None:
    """One after another, twenty PDFs took longer than an attempt had, again and again."""
    config = opening_step(SITE, activity_id="s1", files=files)
    limit, beat = config.get("start_to_close_timeout"), config.get("heartbeat_timeout")
    assert limit is not None
    assert limit.total_seconds() >= SITE.timing.store + files * SECONDS
    assert (beat is not None) is (files > 0), "a lost worker is noticed long before"
