"""What is wrong in a request is named with its place, the value, and what would be right."""

from rest import Rest

LOOPS = "/api/v1/loops"
RUN = f"{LOOPS}/no-such-run"
AGENT = {"kind": "agent", "goal": "x"}
WRONG: dict[str, tuple[str, str, object, str, str]] = {
    "number": ("GET", f"{LOOPS}?limit=abc", None, "query.limit", 'found "abc"; allowed'),
    "bound": ("GET", f"{LOOPS}?limit=-1", None, "query.limit", 'found "-1"; allowed: at least 1'),
    "choice": ("GET", f"{LOOPS}?kind=foo", None, "query.kind", "one of agent, refine, roles"),
    "status": ("GET", f"{LOOPS}?status=foo", None, "query.status", "stopped, cancelled"),
    "parameter": ("GET", f"{LOOPS}?outcom=failed", None, "query.outcom", "Did you mean outcome?"),
    "twice": (
        "GET",
        f"{LOOPS}?status=running&status=paused",
        None,
        "query.status",
        "more than once",
    ),
    "limit twice": ("GET", "/api/v1/gates?limit=1&limit=1", None, "query.limit", "more than once"),
    "moment before all time": (
        "GET",
        "/api/v1/audit?since=0001-01-01T00:00:00%2B14:00",
        None,
        "query.since",
        "outside the years",
    ),
    "moment after all time": (
        "GET",
        "/api/v1/audit.jsonl?since=9999-12-31T23:59:59-01:00",
        None,
        "query.since",
        "outside the years",
    ),
    "no parameter": ("GET", f"{LOOPS}/active/count?kind=x", None, "query.kind", "allowed: none"),
    "of gates": ("GET", "/api/v1/gates?limits=3", None, "query.limits", "Did you mean limit?"),
    "of events": ("GET", f"{RUN}/events?after=abc", None, "query.after", "the parameter after"),
    "path": ("GET", f"{RUN}/iterations/abc", None, "path.iteration", "a whole number"),
    "field": ("POST", f"{RUN}/stop", {"mod": "now"}, "mod", "one of mode. Did you mean mode?"),
    "field of an edit": ("PATCH", RUN, {"gaol": "x"}, "gaol", "Did you mean goal?"),
    "blank goal": ("PATCH", RUN, {"goal": " \n"}, "goal", 'found " \\n"; allowed: a text that'),
    "goal that nobody sees": ("PATCH", RUN, {"goal": "\u200b\u3164"}, "goal", "is not empty"),
    "value": ("POST", f"{RUN}/stop", {"mode": "never"}, "mode", "allowed: one of graceful, now"),
    "kind": ("POST", f"{RUN}/retry", {"note": 5}, "note", "found 5; allowed: a text"),
    "missing": ("POST", f"{RUN}/input", {}, "text", "found nothing"),
    "empty": ("POST", f"{RUN}/input", {"text": ""}, "text", "a text that is not empty"),
    "list": ("POST", f"{RUN}/amend", {"rubric": "x"}, "rubric", 'found "x"; allowed: a list'),
    "no object": ("POST", LOOPS, [1], "body", "an object with named fields"),
    "specification": ("POST", LOOPS, {"kind": "agent", "gaol": "x"}, "gaol", "Did you mean goal?"),
    "budget": ("POST", LOOPS, AGENT | {"budget": {"cost": 1}}, "budget.cost", "mean cost_usd?"),
}  # fmt: skip
UNKNOWN = ("", "/result", "/costs", "/transcript", "/history", "/metrics", "/iterations", "/events")


async def test_a_wrong_value_is_named(door: Rest) -> None:
    for name, (method, path, body, place, words) in WRONG.items():
        answer = await door.client.request(method, path, json=body)
        told = answer.json()
        assert (answer.status_code, told["code"]) == (422, "invalid_input"), name
        messages = [one["message"] for one in told["errors"] if one["path"] == place]
        assert len(messages) == 1, told
        assert words in messages[0], name
        assert place in told["detail"], name
        assert told["cure"], name


async def test_a_probe_of_health_may_have_parameters(door: Rest) -> None:
    assert (await door.client.get("/healthz?probe=1")).status_code == 200


async def test_a_run_that_is_unknown_is_told_by_each_route(door: Rest) -> None:
    for path in UNKNOWN:
        answer = await door.client.get(f"{RUN}{path}")
        assert answer.status_code == 404, path
        assert answer.json()["detail"] == "There is no run no-such-run.", path
