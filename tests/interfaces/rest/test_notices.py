"""Notices over REST: the list, sending again, and who may do so."""

from datetime import UTC, datetime

from rest import Rest

from perdure.domain.run.notices import dropped, new_notice

NOTICES = "/api/v1/notices"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def test_what_no_channel_took_is_sent_again_by_an_admin(door: Rest) -> None:
    kept = door.api.services.notices()
    notice = new_notice({"run": "r1", "gate": "g1", "reminder": 0}, now=NOW)
    await kept.put(notice)
    await kept.settle(dropped(notice, "The webhook at h answered 500.", now=NOW))
    dead = (await door.client.get(NOTICES, params={"state": "dead"})).json()["items"]
    assert [(one["id"], one["problem"]) for one in dead] == [
        (notice.id, "The webhook at h answered 500.")
    ]
    async with door.caller("operate") as other:
        assert (await other.get(NOTICES)).status_code == 403
        assert (await other.post(f"{NOTICES}/{notice.id}/resend")).status_code == 403
    sent = await door.client.post(f"{NOTICES}/{notice.id}/resend")
    assert (sent.status_code, sent.json()["state"]) == (200, "waiting")
    assert (await door.client.post(f"{NOTICES}/{notice.id}/resend")).status_code == 409
    unknown = f"{NOTICES}/msg_{'0' * 32}/resend"
    assert (await door.client.post(unknown)).status_code == 404
