"""What workers write down for later ones: kept, found by name, and handed on through the tree."""

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
from perdure.workflows.delegation_parts.worker_inputs import WorkerInputs
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.step_runner import StepFailed


class WorkerSkills(WorkerInputs):
    """Adds the skills of a run to a manager's loop."""

    async def offer_skills(self) -> None:
        """Learn what earlier runs, people, and the runs above know of such a task."""
        asked = self.spec.skills
        if not (asked or self.spec.recall):
            return
        report = await self._offered(
            asked=asked,
            search=self.spec.recall,
            recall_tokens=recall_allowance(self.spec.budget.tokens or None),
        )
        if report.missing:
            self.inform(f"There is no skill {', '.join(report.missing)}.")
        if report.recalled is not None:
            self.core.recalled = report.recalled.text
            left_out = list(report.recalled.left_out) or None
            self.record_event("recalled", text=report.recalled.summary, left_out=left_out)

    async def take_over_skills(self, names: Sequence[str]) -> None:
        """Know what managers below this one had written down."""
        if names:
            await self._offered(written=tuple(dict.fromkeys(names)))

    async def save_skills(self, texts: Sequence[str]) -> None:
        """Keep what workers wrote down; from the next iteration on it has a name."""
        if not texts:
            return
        core = self.core
        writes = core.base_tree is not None
        request = SaveSkillsRequest(
            run=self.run_id,
            root_run=self.site.root or self.run_id,
            iteration=self.iteration,
            texts=tuple(texts),
            now=workflow.now(),
            versions=core.shelf.versions(),
            folder=core.root if writes else None,
            category=self.spec.category,
        )
        summary = f"save {len(texts)} skills"
        outcome = await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                SaveSkills.save_skills,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        if isinstance(outcome, StepFailed):
            self.inform(f"What workers wrote down as skills was not kept: {outcome.message}")
            return
        self._shelved(outcome.report.saved)
        if writes and outcome.report.saved:
            stored = await self.snapshot()
            core.tree = stored.tree.hash if stored is not None else core.tree

    def _shelved(self, saved: Sequence[SavedSkill]) -> None:
        self.core.shelf = self.core.shelf.with_saved(saved)
        for skill in saved:
            self.record_event("skill_saved", name=skill.name, version=skill.version)

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
                run=self.run_id,
                root_run=self.site.root or self.run_id,
                goal=self.spec.goal,
                now=workflow.now(),
                category=self.spec.category,
                asked=asked,
                written=written,
                search=search,
                recall_tokens=recall_tokens,
            ),
            **activity_options.store_step(self.site, summary="look for skills"),
        )
        shelf = self.core.shelf
        self.core.shelf = shelf.with_earlier(report.skills).with_taken_over(report.written)
        return report
