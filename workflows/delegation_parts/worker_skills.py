"""Skills: what people, managers and workers write down for workers, found by name in the tree."""

from collections.abc import Sequence

from temporalio import workflow

from perdure.activities.skills import OfferSkills, ReadSkills, SaveSkills
from perdure.domain.budget import accounting as budgets
from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.skills import (
    RECALL_TOKENS,
    OfferSkillsReport,
    OfferSkillsRequest,
    ReadSkillsRequest,
    SavedSkill,
    SaveSkillsRequest,
    by_name,
    given_whole,
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

    async def read_skills(self) -> None:
        """Catalog the skills that are files of the working folder."""
        outcome = await self.retries.workspace_step(
            ReadSkills.read_skills,
            # Made anew at each try, for the working folder may have moved to another host.
            lambda: ReadSkillsRequest(run=self.run.id, root=self.run.state.root),
            summary="read the skills of the working folder",
        )
        if isinstance(outcome, StepFailed):
            self.run.inform(f"The skills of the working folder were not read: {outcome.message}")
            return
        report = outcome.report
        self.run.apply_budget(budgets.add_active_time(self.run.state.budget, report.seconds))
        self.run.inform(*report.problems)
        self.run.state.shelf = self.run.state.shelf.with_files(report.skills)

    async def keep_given(self, envelopes: Sequence[Envelope]) -> tuple[Envelope, ...]:
        """Save skills that the manager wrote into its decision; workers are given them by name."""
        shelf = self.run.state.shelf
        written = given_whole((text for one in envelopes for text in one.skills), shelf)
        if not written:
            return tuple(envelopes)
        saved = await self._save(written=written)
        # Where one was too short to be a skill, nobody can say which of the others has which name.
        if len(saved) != len(written):
            return tuple(envelopes)
        shelf = self.run.state.shelf
        return tuple(
            one.model_copy(update={"skills": by_name(one.skills, written, saved, shelf)})
            for one in envelopes
        )

    async def save_skills(self, texts: Sequence[str]) -> None:
        """Save skills that workers wrote; they can be named from the next iteration on."""
        if texts:
            await self._save(texts=tuple(texts))

    async def _save(
        self, *, texts: tuple[str, ...] = (), written: tuple[str, ...] = ()
    ) -> tuple[SavedSkill, ...]:
        """Save skills, given by address or whole, and catalog them; empty if that failed."""
        state = self.run.state
        writes = state.base_tree is not None
        request = SaveSkillsRequest(
            run=self.run.id,
            root_run=self.run.site.root or self.run.id,
            iteration=self.run.iteration,
            texts=texts,
            written=written,
            now=workflow.now(),
            versions=state.shelf.versions(),
            category=self.run.spec.category,
        )
        outcome = await self.retries.workspace_step(
            SaveSkills.save_skills,
            # Made anew at each try, for the working folder may have moved to another host.
            lambda: request.model_copy(update={"folder": state.root if writes else None}),
            summary=f"save {len(texts) + len(written)} skills",
        )
        if isinstance(outcome, StepFailed):
            self.run.inform(f"What was written down as skills was not kept: {outcome.message}")
            return ()
        saved = outcome.report.saved
        shelf = self.run.state.shelf
        self.run.state.shelf = shelf.with_saved(saved)
        for skill in shelf.new(saved):
            self.run.record_event("skill_saved", name=skill.name, version=skill.version)
        if writes and saved:
            stored = await self.snapshots.take()
            state.tree = stored.tree.hash if stored is not None else state.tree
        return saved

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
