"""Runs that the server has lost: what is said of them, and which of them go on."""

import pytest

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Retry
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.status import status_view
from tests.gateway.tiny import MemoryRecords, Site, row


async def test_the_status_of_a_lost_run_says_why_it_ended_and_how_it_goes_on(
    site: Site, records: MemoryRecords
) -> None:
    await records.put_run(row("lost-1"))
    shown = plain(status_view(await site.gateway.status("lost-1")))
    assert "The server does not know this run" in shown
    assert "`perdure retry lost-1` goes on from the store" in " ".join(shown.split())


async def test_a_lost_worker_is_taken_up_by_the_run_that_it_works_for(
    site: Site, records: MemoryRecords
) -> None:
    await records.put_run(row("lost-2"))
    await records.put_run(row("lost-2.w1-leaf", parent="lost-2"))
    with pytest.raises(NotAllowed, match=r"works for lost-2,") as refused:
        await site.gateway.verb("lost-2.w1-leaf", Retry())
    assert refused.value.cure == "Retry that one: perdure retry lost-2"
