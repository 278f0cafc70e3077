"""Makes the steps of some queues from the parts of an installation."""

from collections.abc import Callable, Mapping

from temporalio.client import Client

from perdure.activities.call_model import CallModel
from perdure.activities.evaluation import Judge
from perdure.activities.experiments import NoteExperiment, OpenTrial, SettleTrial, TrialRuns
from perdure.activities.generated_tools import RepairTool
from perdure.activities.manager import Manage
from perdure.activities.memory import Extract
from perdure.activities.plan import Plan
from perdure.activities.roles import AskVerdict
from perdure.activities.skills import ReadSkills, SaveSkills
from perdure.activities.support.run_storage import Frames
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.activities.worker_results import ReviewWork
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores
from perdure.composition.client_services import opening_of
from perdure.composition.parts import Parts
from perdure.extending.own_thread import in_own_thread

Activity = Callable[..., object]


def model_steps(stores: Stores, *, calls: CallModel, frames: Frames) -> list[Activity]:
    """The steps that call models: plain calls, judgements, plans, decisions."""
    structured = StructuredCalls(calls=calls, blobs=stores.blobs)
    judge = Judge(
        structured=structured, frames=frames, verdicts=stores.verdicts, journal=stores.journal
    )
    verdicts = AskVerdict(structured)
    manage = Manage(
        structured=structured,
        blobs=stores.blobs,
        artifacts=stores.artifacts,
        frames=frames,
        now=utc_now,
    )
    return [
        calls.call_model,
        judge.judge,
        Plan(structured).plan,
        verdicts.ask_verdict,
        verdicts.judge_goal,
        Extract(structured).extract,
        RepairTool(structured, blobs=stores.blobs).repair_tool,
        manage.manage,
        ReviewWork(structured).review_work,
    ]


def experiment_steps(
    parts: Parts, client: Client, *, lacks: Callable[[], Mapping[str, str]]
) -> list[Activity]:
    """The steps of experiments; `lacks` returns families of models that this worker cannot call."""
    stores = parts.stores
    store = stores.experiments()
    runs = TrialRuns(opening_of(parts, client, lacks=lacks).open, records=stores.records)
    settle = SettleTrial(
        store,
        records=stores.records,
        journal=stores.journal,
        blobs=stores.blobs,
        checks=parts.checks,
        aside=in_own_thread,
        opening=runs,
    )
    return [
        OpenTrial(store, runs).open_trial,
        settle.settle_trial,
        NoteExperiment(store, now=utc_now).note_experiment,
    ]


def skill_steps(parts: Parts) -> list[Activity]:
    """The steps that copy skills into the folder of a run, and out of it."""
    blobs, folder = parts.stores.blobs, parts.skill_folder
    return [
        ReadSkills(blobs=blobs, folder=folder).read_skills,
        SaveSkills(blobs=blobs, memory=parts.stores.memory, folder=folder).save_skills,
    ]
