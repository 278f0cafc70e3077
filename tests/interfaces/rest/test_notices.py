"""Notices over REST: the list, sending again, and who may do so."""

from datetime import UTC, datetime, timedelta

from rest import Rest

from perdure.domain.run.notices import MOST_ATTEMPTS, failed, new_notice

NOTICES = "/api/v1/notices"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def test_what_no_channel_took_is_sent_again_by_an_admin(door: Rest) -> None:
    kept = door.api.services.notices()
    notice = new_notice({"run": "r1", "gate": "g1", "reminder": 0}, now=NOW)
    spent = notice.model_copy(update={"attempts": MOST_ATTEMPTS})
    await kept.put(failed(spent, "The webhook at h answered 500.", now=NOW))
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


async def test_pages_hold_each_notice_once_also_while_others_come(door: Rest) -> None:
    kept = door.api.services.notices()

    async def put(number: int, at: datetime) -> str:
        notice = new_notice({"run": "r1", "gate": f"g{number}", "reminder": 0}, now=at)
        await kept.put(notice)
        return notice.id

    # Two and two of one moment, so that a page ends between equals.
    made = [await put(number, NOW + timedelta(hours=number // 2)) for number in range(5)]
    found: list[str] = []
    cursor: str | None = None
    for number in range(5, 10):
        asked = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await door.client.get(NOTICES, params=asked)).json()
        found += [one["id"] for one in page["items"]]
        cursor = page["cursor"]
        await put(number, NOW + timedelta(days=1))
    assert (sorted(found), cursor) == (sorted(made), None)
    first = (await door.client.get(NOTICES, params={"limit": "1"})).json()["cursor"]
    other = await door.client.get(NOTICES, params={"cursor": first, "state": "dead"})
    assert other.status_code == 422
