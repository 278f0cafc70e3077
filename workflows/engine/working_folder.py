"""The working folder of a run: opened first, and made anew elsewhere when its host is gone.

Where an installation has several hosts, a run's own folder is on the one that opened it, and steps
in the folder go to the queue of that host. A step that nobody takes there has not begun. So the
host is asked whether it is there; if it is not, the folder is opened again by whichever host is
free, from the newest snapshot.
"""

from temporalio import workflow
from temporalio.exceptions import ActivityError

from perdure.activities.open_workspace import OpenWorkspace
from perdure.domain.foundation.names import READY_ACTIVITY
from perdure.domain.run.activity_messages import OpenWorkspaceReport, OpenWorkspaceRequest
from perdure.domain.tools.workspaces import HostedFolder
from perdure.domain.turns.settings import resolve
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.policies import Requirements
from perdure.workflows.engine.run import AnyRun

OPENS = "open workspace"
OPENS_AGAIN = "open the workspace on another host"


class WorkingFolder:
    """Starts the steps that open a run's working folder, and notes where it is."""

    def __init__(self, run: AnyRun, requirements: Requirements) -> None:
        self.run = run
        self.requirements = requirements

    def start_opening(self, activity_id: str) -> workflow.ActivityHandle[OpenWorkspaceReport]:
        """Make the folder, or restore it to the run's last snapshot where it is."""
        return self._start(
            activity_id,
            self.run.state.tree or self.run.site.tree,
            summary=OPENS,
            host=self.run.state.hosted,
        )

    def start_moving(self, activity_id: str) -> workflow.ActivityHandle[OpenWorkspaceReport]:
        """Make the folder on any host, as it was after the last step in it."""
        return self._start(activity_id, self._newest(), summary=OPENS_AGAIN, host=None)

    def note_moved(self, report: OpenWorkspaceReport) -> None:
        """Note where the folder is now."""
        # Read first, since `note_opened` forgets what the lost host had.
        tree, state = self._newest(), self.run.state
        self.note_opened(report)
        if state.hosted is not None:
            state.hosted = state.hosted.model_copy(update={"tree": tree, "moved": True})

    def note_opened(self, report: OpenWorkspaceReport) -> None:
        """Note where the folder is, and that it is as the run's last snapshot."""
        state = self.run.state
        state.root = report.grant.root
        state.hosted = None
        if report.host is not None:
            state.hosted = HostedFolder(queue=report.host, tree=state.tree or self.run.site.tree)

    async def host_answers(self) -> bool:
        """Whether a worker of the folder's host is there, however busy it is."""
        hosted = self.run.state.hosted
        if hosted is None:
            return True
        try:
            await workflow.execute_activity(
                READY_ACTIVITY,
                **activity_options.host_probe(
                    self.run.site, hosted, activity_id=self.run.next_activity_id()
                ),
            )
        except ActivityError:
            return False
        self.run.state.hosted = hosted.with_longer_wait()
        return True

    def _newest(self) -> str | None:
        hosted, state = self.run.state.hosted, self.run.state
        written = None if hosted is None else hosted.tree
        return written or state.tree or self.run.site.tree

    def _start(
        self, activity_id: str, tree: str | None, *, summary: str, host: HostedFolder | None
    ) -> workflow.ActivityHandle[OpenWorkspaceReport]:
        run, needs = self.run, self.requirements
        request = OpenWorkspaceRequest(
            run=run.id,
            source=run.site.folder,
            tools=run.spec.tools,
            tool_timeout_s=resolve(run.spec.agent).tool_timeout,
            tree=tree,
            base=run.state.base_tree or run.site.tree,
            needs=needs.needs(),
            root=run.site.root if run.spec.tools.generated else "",
            session=needs.session_and_project()[0],
            project=needs.session_and_project()[1],
            seats=needs.seats(),
            orchestrates=needs.orchestrates(),
            hooks=run.spec.hooks.wanted,
        )
        return workflow.start_activity_method(
            OpenWorkspace.open_workspace,
            request,
            **activity_options.workspace_step(
                run.site, activity_id=activity_id, summary=summary, host=host
            ),
        )
