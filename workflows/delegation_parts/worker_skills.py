"""Skills: what workers write down for later workers, found by name in the whole tree."""

from collections.abc import Sequence

from temporalio import workflow

from perdure.activities.skills import OfferSkills, SaveSkills
from perdure.domain.delegation.skills import (
    RECALL_TOKENS,
    OfferSkillsReport,
    OfferSkillsRequest,
    SavedSkill,
    SaveSkillsRequest,
)
from perdure.domain.memory.prompt_blocks import recall_allowance
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import StepFailed


class WorkerSkills:
    """Offers skills to workers and saves those that they write."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.retries = engine.retries
        self.snapshots = engine.snapshots

    async def offer_skills(self) -> None:
        """Look up what earlier runs, people and the runs above know about such a task."""
        asked = self.run.spec.skills
        if not (asked or self.run.spec.recall):
            return
        report = await self._offered(
            asked=asked,
            search=self.run.spec.recall,
            recall_tokens=recall_allowance(self.run.spec.budget.tokens or None),
        )
        if report.missing:
            self.run.inform(f"There is no skill {', '.join(report.missing)}.")
        if report.recalled is not None:
            self.run.state.recalled = report.recalled.text
            left_out = list(report.recalled.left_out) or None
            self.run.record_event("recalled", text=report.recalled.summary, left_out=left_out)

    async def take_over_skills(self, names: Sequence[str]) -> None:
        """Offer the skills that sub-managers saved."""
        if names:
            # By name only: the texts are in memory, and results of children stay small.
            await self._offered(written=tuple(dict.fromkeys(names)))

    async def save_skills(self, texts: Sequence[str]) -> None:
        """Save skills that workers wrote; they can be named from the next iteration on."""
        if not texts:
            return
        state = self.run.state
        writes = state.base_tree is not None
        request = SaveSkillsRequest(
            run=self.run.id,
            root_run=self.run.site.root or self.run.id,
            iteration=self.run.iteration,
            texts=tuple(texts),
            now=workflow.now(),
            versions=state.shelf.versions(),
            folder=state.root if writes else None,
            category=self.run.spec.category,
        )
        summary = f"save {len(texts)} skills"
        outcome = await self.retries.outlasting(
            lambda activity_id: workflow.start_activity_method(
                SaveSkills.save_skills,
                request,
                **activity_options.workspace_step(
                    self.run.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        if isinstance(outcome, StepFailed):
            self.run.inform(f"What workers wrote down as skills was not kept: {outcome.message}")
            return
        self._shelved(outcome.report.saved)
        if writes and outcome.report.saved:
            stored = await self.snapshots.take()
            state.tree = stored.tree.hash if stored is not None else state.tree

    def _shelved(self, saved: Sequence[SavedSkill]) -> None:
        self.run.state.shelf = self.run.state.shelf.with_saved(saved)
        for skill in saved:
            self.run.record_event("skill_saved", name=skill.name, version=skill.version)

    async def _offered(
        self,
        *,
        asked: tuple[str, ...] = (),
        written: tuple[str, ...] = (),
        search: bool = False,
        recall_tokens: int = RECALL_TOKENS,
    ) -> OfferSkillsReport:
        report = await workflow.execute_activity_method(
            OfferSkills.offer_skills,
            OfferSkillsRequest(
                run=self.run.id,
                root_run=self.run.site.root or self.run.id,
                goal=self.run.spec.goal,
                now=workflow.now(),
                category=self.run.spec.category,
                asked=asked,
                written=written,
                search=search,
                recall_tokens=recall_tokens,
            ),
            **activity_options.store_step(self.run.site, summary="look for skills"),
        )
        shelf = self.run.state.shelf
        self.run.state.shelf = shelf.with_earlier(report.skills).with_taken_over(report.written)
        return report
