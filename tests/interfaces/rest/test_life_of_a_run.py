"""A run from its start to its deletion, over HTTP alone."""

from rest import Rest

AGENT = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}
LOOPS = "/api/v1/loops"


async def test_a_run_is_started_followed_read_and_deleted(rest: Rest) -> None:
    started = await rest.client.post(LOOPS, json=AGENT)
    assert started.status_code == 201, started.text
    run = started.json()["id"]
    assert started.headers["location"] == f"{LOOPS}/{run}"
    assert started.json()["status"]["kind"] == "agent"

    result = await rest.ended(run)
    assert (result["outcome"], result["output"]) == ("accepted", "an answer")

    seen = await rest.client.get(f"{LOOPS}/{run}")
    assert seen.json()["lifecycle"] == "completed"
    assert seen.headers["etag"].startswith('"')
    costs = (await rest.client.get(f"{LOOPS}/{run}/costs")).json()
    assert costs["total"]["attempts"] == 1
    said = (await rest.client.get(f"{LOOPS}/{run}/transcript")).json()
    assert said["items"][-1]["blocks"][0]["text"] == "an answer"
    lines = (await rest.client.get(f"{LOOPS}/{run}/iterations")).json()["items"]
    assert [line["index"] for line in lines] == [1]
    one = (await rest.client.get(f"{LOOPS}/{run}/iterations/1")).json()
    assert one["record"]["index"] == 1
    history = (await rest.client.get(f"{LOOPS}/{run}/history")).json()
    assert history["items"] == [one["record"]]
    figures = (await rest.client.get(f"{LOOPS}/{run}/metrics")).json()
    assert (figures["iterations"], figures["model_calls"]) == (1, 1)

    assert (await rest.client.delete(f"{LOOPS}/{run}")).status_code == 204
    assert (await rest.client.get(f"{LOOPS}/{run}")).status_code == 404
    assert (await rest.client.delete(f"{LOOPS}/{run}")).status_code == 404
