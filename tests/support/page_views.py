"""Every view of the page with something in it, and which parts of the page they leave out."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from kept_experiments import ID
from playwright.async_api import Page, Response
from proposals import TOOL
from scenes import Scenes
from starlette.routing import Match, Route

from perdure.interfaces.web import rendering
from perdure.interfaces.web.app import ROUTERS

# What answers with no page of its own: parts, streams, files and redirects.
NO_PAGES = frozenset(
    {
        "/",
        "/inbox/count",
        "/runs/{run}/glance",
        "/runs/{run}/live",
        "/runs/{run}/iterations/{index}/attachments/{ref}",
        "/runs/{run}/results/{ref}",
        "/costs.csv",
        "/experiments/{experiment}/report.{ending}",
        "/sign-in/provider",
        "/sign-in/provider/back",
    }
)
# It shows nothing: the browser asks again at once.
NEVER_SEEN = frozenset({"layout/again.html"})
_SEND = """([path, fields]) => {
  const form = document.createElement("form");
  form.method = "post";
  form.action = path;
  const key = document.querySelector("[name=form_key]")?.value ?? "";
  for (const [name, value] of Object.entries({...fields, form_key: key})) {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    form.append(field);
  }
  document.body.append(form);
  form.submit();
}"""
NAMELESS = frozenset({"nowhere", "no such run"})
ITERATION = 1


def views(runs: Scenes, *, calling: str) -> dict[str, str]:
    """The path of every view that opens at an address, by the view's name.

    Args:
        runs: a run in each state.
        calling: an ended run whose first iteration called a tool.
    """
    accepted = f"/runs/{runs.accepted}"
    return {
        "sign-in": "/sign-in",
        "inbox": "/inbox",
        "runs": "/runs",
        "no runs": "/runs?label=nowhere",
        "accepted run": accepted,
        "failed run": f"/runs/{runs.failed}",
        "waiting run": f"/runs/{runs.approval}",
        "paused run": f"/runs/{runs.paused}",
        "running run": f"/runs/{runs.running}",
        "fork": f"{accepted}/iterations/{ITERATION}/fork",
        "tree": f"{accepted}/tree",
        "iteration": f"{accepted}/iterations/2",
        "model calls": f"{accepted}/iterations/{ITERATION}/calls",
        "tool calls": f"/runs/{calling}/iterations/{ITERATION}/tools",
        "erase": f"{accepted}/erase",
        "what to compare": "/compare",
        "two runs": f"/compare?left={runs.accepted}&right={runs.escalation}",
        "two iterations": f"/compare?left={runs.accepted}:1&right={runs.accepted}:2",
        "costs": "/costs?by=model",
        "costs of no day": "/costs?since=2020-01-01&until=2020-01-02",
        "library": "/library",
        "learnings": "/library?shelf=learning",
        "definitions": "/library?shelf=definition",
        "definition": "/library/definition/harness",
        "learning": "/library/learning/learning-1",
        "tool": f"/library/tool/{TOOL}",
        "schedules": "/schedules",
        "new schedule": "/schedules/new",
        "schedule": "/schedules/news",
        "experiments": "/experiments",
        "experiment": f"/experiments/{ID}",
        "new experiment": "/experiments/new",
        "deletion of an experiment": f"/experiments/{ID}/delete",
        "start": "/new",
        "start of a ready-made task": "/new?task=job-matching",
        "start of a loop with parameters": "/new?kind=roles&definition=research",
        "nowhere": "/nowhere",
        "no such run": "/runs/agent-nobody-knows",
    }


def answers(runs: Scenes) -> dict[str, tuple[str, dict[str, str]]]:
    """Views that answer a form: where it is sent, and its fields."""
    return {
        "plan of a start": ("/new", {"goal": "Name a fruit.", "kind": "agent"}),
        "refused start": ("/new", {"goal": "Name a fruit.", "more": "budget: {tokens: many}"}),
        "refused fork": (
            f"/runs/{runs.accepted}/iterations/{ITERATION}/fork",
            {"set": "no such setting"},
        ),
        "refused schedule": ("/schedules/new", {"name": "Not a name", "task": "goal: [1"}),
        "plan of an experiment": (
            "/experiments/new",
            {"task": "goal: Write of it.", "inputs": '{"id": "one", "product": "bottle"}'},
        ),
        "nothing ticked": ("/inbox/alike", {}),
        "refused to some": ("/runs/pause-selected", {"run": runs.failed}),
        "refused stop": (f"/runs/{runs.failed}/stop", {}),
        "answered too late": (f"/runs/{runs.accepted}/gates/gate-1/answer", {"choice": "approve"}),
    }


async def sent(page: Page, path: str, fields: Mapping[str, str]) -> None:
    """Send a form with the key of the page that is open, and wait for what it leads to."""
    async with page.expect_navigation():
        await page.evaluate(_SEND, [path, dict(fields)])


def unvisited(paths: Iterable[str]) -> set[str]:
    """The routes of pages that none of these paths opens."""
    seen = {_route(path.partition("?")[0]) for path in paths}
    return _pages() - NO_PAGES - seen


def templates_of_pages() -> set[str]:
    """The templates that are whole pages."""
    here = rendering.HERE
    found = {str(one.relative_to(here)) for one in here.rglob("*.html") if _is_page(one)}
    return found - NEVER_SEEN


@contextmanager
def templates_used() -> Generator[set[str]]:
    """Fills the set with the names of the templates that are filled meanwhile."""
    environment, used = rendering.templates(), set[str]()
    given = environment.get_template

    def noting(name: str, *more: object, **named: object) -> object:
        used.add(name)
        return given(name, *more, **named)  # pyright: ignore[reportArgumentType, reportCallIssue]

    environment.get_template = noting  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield used
    finally:
        del environment.get_template


async def opened(page: Page, url: str, name: str, path: str) -> Response:
    """Open a view; it is there unless its name says otherwise."""
    answer = await page.goto(url + path)
    assert answer is not None
    assert answer.status == (404 if name in NAMELESS else 200), name
    return answer


def _pages() -> set[str]:
    routes = (route for router in ROUTERS for route in router.routes)
    return {one.path for one in routes if isinstance(one, Route) and "GET" in (one.methods or ())}


def _route(path: str) -> str | None:
    """The route that answers a path: the first that fits, as in the application."""
    scope = {"type": "http", "method": "GET", "path": path}
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
                return route.path
    return None


def _is_page(template: Path) -> bool:
    return "layout/base.html" in template.read_text("utf-8").partition("\n")[0]
