"""What runs left for later ones, over REST: listed, read, approved and rejected, and audited."""

import pytest
from proposals import ACCEPTED, FAILED, TOOL, propose
from rest import Rest

from perdure.domain.memory.skills import proposal_name
from perdure.domain.run.audit import AuditFilter
from perdure.interfaces.rest.paging import Cursors

LIBRARY = "/api/v1/library"


@pytest.fixture
async def library(door: Rest) -> Rest:
    await propose(door.site.parts.stores)
    return door


async def skill_of(rest: Rest, run: str) -> str:
    items = (await rest.client.get(f"{LIBRARY}/skill")).json()["items"]
    return next(one["id"] for one in items if one["name"] == proposal_name("notes", run))


async def decided(rest: Rest) -> list[tuple[str, str, str | None]]:
    found = await rest.site.parts.stores.audit.entries(AuditFilter())
    return [(one.action, one.about, one.run) for one in found if "library" in one.action]


async def test_each_shelf_says_state_scope_and_where_from(library: Rest) -> None:
    found = {}
    for shelf in ("skill", "learning", "pattern", "tool"):
        (found[shelf], *_) = (await library.client.get(f"{LIBRARY}/{shelf}")).json()["items"]
    assert {shelf: one["state"] for shelf, one in found.items()} == {
        "skill": "proposed", "learning": "in_use", "pattern": "proposed", "tool": "proposed",
    }  # fmt: skip
    assert found["tool"]["runs"] == found["learning"]["runs"] == [ACCEPTED]
    assert found["tool"]["scope"] == "runs of the tree that made it"
    assert found["learning"]["scope"] == "tasks of the category docs"


async def test_an_approved_skill_is_given_to_later_runs_and_written_down(library: Rest) -> None:
    id = await skill_of(library, ACCEPTED)
    path = f"{LIBRARY}/skill/{id}"
    answer = await library.client.post(f"{path}/approve", json={"name": "House notes"})
    assert answer.status_code == 200, answer.text
    done = answer.json()
    assert (done["name"], done["state"]) == ("house-notes", "in_use")
    assert done["decided_by"].startswith("test (")
    kept = await library.site.parts.stores.memory.skill("house-notes")
    assert kept is not None and kept.approved
    assert await decided(library) == [("library_approved", f"skill {id}", ACCEPTED)]
    assert (await library.client.post(f"{path}/approve")).status_code == 404


@pytest.mark.parametrize("filters", [{}, {"state": "proposed"}])
async def test_no_page_skips_a_proposal_when_one_before_it_is_decided(
    library: Rest, filters: dict[str, str]
) -> None:
    path, wanted = f"{LIBRARY}/skill", {"limit": "1", **filters}
    first = (await library.client.get(path, params=wanted)).json()
    (seen,) = first["items"]
    assert (await library.client.post(f"{path}/{seen['id']}/reject")).status_code == 200
    wanted["cursor"] = first["cursor"]
    second = (await library.client.get(path, params=wanted)).json()
    left = (await library.client.get(path, params=filters)).json()["items"]
    assert second["items"] == left != []
    assert second["cursor"] is None


async def test_a_cursor_that_counted_items_is_refused(library: Rest) -> None:
    key = await library.api.services.access.signing_key()
    old = Cursors(key, ["library", "skill", None]).made("1")
    assert (await library.client.get(f"{LIBRARY}/skill?cursor={old}")).status_code == 422


async def test_what_a_failed_run_proposed_is_not_approved_but_can_be_rejected(
    library: Rest,
) -> None:
    id = await skill_of(library, FAILED)
    refused = await library.client.post(f"{LIBRARY}/skill/{id}/approve")
    assert refused.status_code == 409 and "ended failed" in refused.text
    assert await decided(library) == []
    done = await library.client.post(f"{LIBRARY}/skill/{id}/reject")
    assert done.json()["state"] == "rejected"
    assert (await library.client.get(f"{LIBRARY}/skill/{id}")).status_code == 404
    assert await decided(library) == [("library_rejected", f"skill {id}", FAILED)]


async def test_a_tool_is_read_whole_and_decided_on(library: Rest) -> None:
    path = f"{LIBRARY}/tool/{TOOL}"
    whole = (await library.client.get(path)).json()
    assert "return a + b" in whole["text"] and '"object"' in whole["parameters"]
    assert (await library.client.post(f"{path}/approve")).json()["scope"] == "all runs that name it"
    assert (await library.client.post(f"{path}/reject")).json()["state"] == "rejected"
    listed = await library.client.get(f"{LIBRARY}/tool", params={"state": "proposed"})
    assert listed.json()["items"] == []


@pytest.mark.parametrize("shelf", ["learning", "skill"])
async def test_what_is_forgotten_is_gone_and_written_down(library: Rest, shelf: str) -> None:
    (item, *others) = (await library.client.get(f"{LIBRARY}/{shelf}")).json()["items"]
    path = f"{LIBRARY}/{shelf}/{item['id']}"
    answer = await library.client.post(f"{path}/forget")
    assert (answer.status_code, answer.json()) == (200, item)
    assert (await library.client.post(f"{path}/forget")).status_code == 404
    assert (await library.client.get(f"{LIBRARY}/{shelf}")).json()["items"] == others
    assert await decided(library) == [
        ("library_forgotten", f"{shelf} {item['id']}", item["runs"][0])
    ]


@pytest.mark.parametrize("path", ["pattern/pattern-1", f"tool/{TOOL}"])
async def test_what_a_run_would_bring_back_is_rejected_not_forgotten(
    library: Rest, path: str
) -> None:
    answer = await library.client.post(f"{LIBRARY}/{path}/forget")
    assert answer.status_code == 409 and "Reject it" in answer.text
    assert (await library.client.get(f"{LIBRARY}/{path}")).status_code == 200
    assert await decided(library) == []


async def test_a_rejected_pattern_stays_rejected(library: Rest) -> None:
    answer = await library.client.post(f"{LIBRARY}/pattern/pattern-1/reject")
    assert answer.json()["state"] == "rejected"
    assert await decided(library) == [("library_rejected", "pattern pattern-1", None)]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("skill/nothing", 404), ("tool/abab", 404), ("tool/made.add", 404),
        ("pattern/pattern", 404), ("skill/pattern-1", 404), ("book/x", 422),
        ("learning/learning-1/approve", 409),
    ],
)  # fmt: skip
async def test_ids_are_whole_and_learnings_need_no_decision(
    library: Rest, path: str, status: int
) -> None:
    method = "POST" if path.endswith("approve") else "GET"
    answer = await library.client.request(method, f"{LIBRARY}/{path}")
    assert answer.status_code == status, answer.text


async def test_who_only_reads_decides_nothing(library: Rest) -> None:
    async with library.caller("read", "answer") as reader:
        answer = await reader.post(f"{LIBRARY}/tool/{TOOL}/approve")
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        answer = await reader.post(f"{LIBRARY}/learning/learning-1/forget")
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert (await reader.get(f"{LIBRARY}/tool/{TOOL}")).status_code == 200
