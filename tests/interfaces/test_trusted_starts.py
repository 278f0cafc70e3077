"""What a token may start: its folders, and what needs the scope `execute`."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from perdure.adapters.definitions.store import LoopFiles
from perdure.domain.experiments.plan import Arm, Entry, Plan
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.access import NO_DIGEST, ApiToken
from perdure.domain.run.loop_api import LoopAsk
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.mcp.handler import Desk
from perdure.interfaces.rest.callers import Caller
from perdure.interfaces.rest.error_responses import Refused
from perdure.interfaces.rest.experiments import InputsBody, extend_experiment, plan_experiment
from perdure.interfaces.rest.scopes import trusted_submission
from perdure.interfaces.tokens import is_below
from perdure.submission.layers import Fields
from perdure.submission.loading import load_data
from perdure.submission.types import Surroundings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DEPLOY: Fields = {
    "name": "deploy",
    "roles": [{"name": "hand", "role": "hand", "prompt": "do it", "access": "full"}],
    "termination_condition": {"type": "max_iterations", "value": 1},
}
MODEL: Fields = {"models": {"executor": "x"}}
TASK: Fields = {"kind": "roles", "goal": "g", "roles": {"definition": "deploy"}, **MODEL}


def test_a_folder_behind_a_link_and_dots_is_where_a_run_would_start(tmp_path: Path) -> None:
    ours, other = tmp_path / "tenant-a", tmp_path / "tenant-b"
    for folder in (ours / "releases" / "v1", other / "deep"):
        folder.mkdir(parents=True)
    (ours / "current").symlink_to("releases/v1")
    (ours / "way").symlink_to(other / "deep")
    left = f"{ours}/current/../../tenant-b"
    task: Fields = {"kind": "agent", "goal": "g", "workspace": left, "models": {"executor": "x"}}
    assert load_data(task, surroundings=Surroundings(folder=None)).spec.workspace == str(other)
    assert not is_below(left, [str(ours)])
    # The trials of an experiment start in the folder as it is written, so links count there.
    assert not is_below(f"{ours}/way/../deep", [str(ours)])
    assert is_below(f"{ours}/current/..", [str(ours)])
    assert is_below(f"{ours}/releases/../current", [str(ours)])


def token(**bounds: Any) -> ApiToken:
    return ApiToken(
        id="t", name="a", scopes=("operate",), digest=NO_DIGEST, created_at=NOW, **bounds
    )


class Site:
    """An installation of fakes whose folder `project` has a loop with full access."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home, self.project = home, project
        self.loops = LoopFiles(home)
        self.started: list[Any] = []
        self.gateway: Any = SimpleNamespace(
            default_model=self.nothing, fresh_id=lambda *_: "roles-x", start=self.start
        )
        self.services: Any = SimpleNamespace(
            gateway=self.gateway,
            definitions=lambda: self.loops,
            records=SimpleNamespace(workspaces=self.no_folders),
            access=SimpleNamespace(claim_start=self.nothing, forget_start=self.nothing),
        )
        self.surroundings = Surroundings(folder=None, user_defaults=home / "perdure.yaml")

    async def nothing(self, *_: object) -> None:
        return None

    async def no_folders(self) -> dict[str, str]:
        return {}

    async def start(self, spec: object, **_: object) -> str:
        self.started.append(spec)
        return "roles-x"

    def desk(self, given: ApiToken, workspace: Path | None) -> Desk:
        nothing: Any = None
        loops = LoopService(
            gateway=self.gateway,
            definitions_kept=self.loops,
            records=self.services.records,
            blobs=nothing,
            journal=nothing,
            surroundings=self.surroundings,
            by="t",
            workspace=None if workspace is None else str(workspace),
        )
        return Desk(self.services, loops, token=given, now=NOW)

    async def over_rest(self, given: ApiToken, task: Fields) -> None:
        site: Any = self
        await trusted_submission(site, Caller(token=given), task)


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "home", tmp_path / "project")
    for folder in (made.home, made.project):
        folder.mkdir()
    await made.loops.create(DEPLOY, only_new=True, workspace=str(made.project))
    return made


def defaults(site: Site, text: str) -> None:
    (site.home / "perdure.yaml").write_text(text)


async def test_the_workspace_of_an_mcp_server_brings_loops_that_need_execute(site: Site) -> None:
    with pytest.raises(NotAllowed, match=r"execute.*roles\[0\]\.access"):
        await site.desk(token(), site.project).start_task(TASK)
    assert site.started == []
    await site.desk(token(), site.project).start_task({"kind": "agent", "goal": "g"} | MODEL)
    assert [spec.workspace for spec in site.started] == [str(site.project)]


async def test_the_default_workspace_brings_loops_that_need_execute(site: Site) -> None:
    defaults(site, f"workspace: {site.project}\n")
    with pytest.raises(Refused, match=r"roles\[0\]\.access"):
        await site.over_rest(token(), TASK)
    with pytest.raises(NotAllowed, match=r"roles\[0\]\.access"):
        await site.desk(token(), None).start_task(TASK)
    # The operator named that folder, so a harmless run may be the first in it.
    await site.over_rest(token(), {"kind": "agent", "goal": "g"} | MODEL)


async def test_default_access_needs_execute_too(site: Site) -> None:
    defaults(site, "tools: {access: full}\nmodels: {executor: x}\n")
    with pytest.raises(Refused, match=r"tools\.access"):
        await site.over_rest(token(), {"kind": "agent", "goal": "g"})
    desk = site.desk(token(), None)
    with pytest.raises(NotAllowed, match=r"tools\.access"):
        await desk.start_task({"kind": "agent", "goal": "g"})
    with pytest.raises(NotAllowed, match=r"tools\.access"):
        await desk.start(LoopAsk(definition="deploy", goal="g"))
    assert site.started == []


async def test_a_default_session_is_shared_too(site: Site) -> None:
    defaults(site, "roles: {session: others}\n")
    ours = token(folders=(str(site.project),))
    task = TASK | {"workspace": str(site.project)}
    with pytest.raises(Refused, match="session"):
        await site.over_rest(ours, task)
    with pytest.raises(NotAllowed, match="session"):
        await site.desk(ours, None).start_task(task)


async def test_no_folder_of_the_host_is_told_apart(site: Site) -> None:
    """Reading a specification says whether its folder exists; the token is refused before."""
    for bound in (token(), token(folders=(str(site.home),))):
        for folder in (site.project, site.project / "missing"):
            with pytest.raises(Refused) as refused:
                await site.over_rest(bound, TASK | {"workspace": str(folder)})
            assert refused.value.status_code == 403
            with pytest.raises(NotAllowed):
                await site.desk(bound, None).start_task(TASK | {"workspace": str(folder)})


async def test_no_folder_of_the_host_is_told_apart_by_an_experiment(site: Site) -> None:
    task: Fields = {"kind": "agent", "goal": "g"} | MODEL
    known = Plan(name="n", arms=(Arm(name="a", task=task),))
    site.services.experiments = lambda: SimpleNamespace(
        stored=AsyncMock(return_value=SimpleNamespace(plan=known)),
        entries=AsyncMock(return_value=[Entry(name="a", context={"input": "x"})]),
    )
    over_rest: Any = site
    for bound in (token(), token(folders=(str(site.home),))):
        for folder in (site.project, site.project / "missing"):
            own: Fields = {"workspace": str(folder)}
            inside: Fields = {"inputs": [{"input": "x", "set": own}]}
            plain: Fields = {"task": task, "inputs": ["x"], "arms": {"a": {}}, "score": "labels"}
            arms: Fields = {"arms": {"a": {".workspace": str(folder)}}}
            whole: Fields = {"task": task | own}
            for changed in (whole, arms, inside):
                with pytest.raises(Refused) as refused:
                    await plan_experiment(over_rest, Caller(token=bound), plain | changed)
                assert refused.value.status_code == 403
            more = InputsBody.model_validate(inside)
            with pytest.raises(Refused) as refused:
                await extend_experiment(over_rest, Caller(token=bound), "e", more)
            assert refused.value.status_code == 403
