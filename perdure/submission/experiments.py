"""Turns an experiment's file into a plan and inputs; all arms are checked before anything starts.

Memory is off unless an arm turns it on: a run that learned from an earlier one of the same
experiment would make its arm look better the later it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue, ValidationError

from perdure.domain.experiments.plan import (
    Arm,
    Entry,
    Fields,
    Plan,
    Scoring,
    differing,
    highest,
    trial_task,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.ports import BlobStore
from perdure.domain.specs import Spec
from perdure.submission.experiment_arms import (
    shared_arms,
    stored_arms,
    submitted_arms,
    written_arms,
)
from perdure.submission.experiment_inputs import entries_of, read_inputs
from perdure.submission.experiment_scoring import budget_of, require_labels, scoring_of
from perdure.submission.file_references import with_addresses
from perdure.submission.findings import Findings, experiment_error
from perdure.submission.loading import load_data
from perdure.submission.task_file import fields_of, read_file
from perdure.submission.types import Submission, Surroundings


class ExperimentFile(FrozenModel):
    """The fields of an experiment's file, before its task and inputs are read."""

    task: str | dict[str, JsonValue]
    inputs: str | list[JsonValue]
    name: str | None = None
    arms: dict[str, JsonValue] | None = None
    repeats: int = 1
    parallel: int = 4
    score: str | dict[str, JsonValue] = "rubric"
    budget: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSubmission:
    """A valid experiment: its plan, its inputs, and the files to store before it starts."""

    plan: Plan
    entries: tuple[Entry, ...]
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load_experiment(path: str, *, surroundings: Surroundings) -> ExperimentSubmission:
    """Read an experiment's file; paths in it are relative to its folder.

    Raises:
        NotFound: the file, its task or its inputs do not exist.
        InvalidInput: something is wrong; the message lists all problems.
    """
    folder = surroundings.folder
    if folder is None:
        raise InvalidInput("Experiments are read from files by commands alone.")
    file = (folder / path).absolute()
    around = replace(surroundings, folder=file.parent)
    return experiment_of(read_file(file), surroundings=around, name=file.stem)


def experiment_of(
    data: JsonValue, *, surroundings: Surroundings, name: str = "experiment"
) -> ExperimentSubmission:
    """Read an experiment from data, such as a REST body; without a folder, inputs must be a list.

    Raises:
        NotFound: its task or its inputs do not exist.
        InvalidInput: something is wrong; the message lists all problems.
    """
    found = Findings()
    given = _file(fields_of(data, named="The experiment"), found)
    entries = found.part(lambda: entries_of(read_inputs(given.inputs, folder=surroundings.folder)))
    written = written_arms(given.arms, found)
    # Every arm is read with the first input, so without inputs they have to wait.
    first = entries[0] if entries else None
    submitted = (
        submitted_arms(given.task, written, first, surroundings, found) if first is not None else {}
    )
    arms, shared = (), dict[str, Submission]()
    if first is not None:
        shared = shared_arms(given.task, written, first, surroundings, submitted)
        arms = stored_arms(written, _specs(submitted), _specs(shared), first, found)
    spec = next(iter(_specs(submitted).values()), None)
    scoring = found.part(lambda: scoring_of(given.score, spec, entries or (), surroundings))
    budget = found.part(lambda: budget_of(given.budget, path="budget"))
    plan = found.part(lambda: _plan(given, name, arms, scoring or Scoring()))
    whole = (
        found.part(lambda: _with_entries(plan, entries, surroundings, first=entries[0]))
        if plan is not None and entries is not None
        else None
    )
    found.settle()
    # Where one of them is None its part was refused, and that was raised just now.
    assert whole is not None
    assert budget is not None
    assert entries is not None
    return ExperimentSubmission(
        plan=whole.model_copy(update={"budget": budget}),
        entries=tuple(entries),
        blobs={
            key: data
            for arms_read in (submitted, shared)
            for one in arms_read.values()
            for key, data in one.blobs.items()
        },
        notes=tuple(dict.fromkeys(note for one in submitted.values() for note in one.notes)),
    )


def named_folders(fields: Mapping[str, JsonValue]) -> set[str]:
    """The workspaces that the fields of an experiment name, without a look at any of them."""
    arms, inputs = fields.get("arms"), fields.get("inputs")
    written = written_arms(arms if isinstance(arms, dict) else None, Findings())
    changed = [fields.get("task"), *(arm.fields for arm in written)]
    for one in inputs if isinstance(inputs, list) else []:
        changed.append(one.get("set") if isinstance(one, dict) else None)
    folders = (one.get("workspace") for one in changed if isinstance(one, dict))
    return {folder for folder in folders if isinstance(folder, str)}


def _specs(arms: Mapping[str, Submission]) -> dict[str, Spec]:
    return {arm: one.spec for arm, one in arms.items()}


async def stored_plan(submitted: ExperimentSubmission, blobs: BlobStore) -> Plan:
    """Put the files of an experiment into the blob store.

    Returns:
        The plan to start, with the addresses that the store returned.
    """
    moved = {address: await blobs.put(data) for address, data in submitted.blobs.items()}
    if all(old == new for old, new in moved.items()):
        return submitted.plan

    def there(fields: Fields) -> Fields:
        return with_addresses(fields, lambda old: moved.get(old, old))

    arms = tuple(
        arm.model_copy(update={"task": there(arm.task), "own": there(arm.own)})
        for arm in submitted.plan.arms
    )
    return submitted.plan.model_copy(update={"arms": arms})


def more_entries(
    inputs: str | list[JsonValue], plan: Plan, known: Sequence[Entry], *, surroundings: Surroundings
) -> list[Entry]:
    """Further inputs of an experiment, with the same fields as its existing ones.

    Raises:
        NotFound: the inputs do not exist.
        InvalidInput: they have other fields, the name of an existing input, or no right answer
            where labels score.
    """
    entries = entries_of(read_inputs(inputs, folder=surroundings.folder), after=known)
    require_labels(plan.scoring, entries)
    _with_entries(plan, entries, surroundings, first=[*known, *entries][0])
    return entries


def _file(fields: Fields, found: Findings) -> ExperimentFile:
    """The fields of the file; those that are wrong count as not given.

    Raises:
        InvalidInput: without its task or its inputs there is nothing else to read.
    """
    try:
        return ExperimentFile.model_validate(fields)
    except ValidationError as error:
        found.add(experiment_error(problems_of(error, fields, names=ExperimentFile.model_fields)))
        wrong = {detail["loc"][0] for detail in error.errors(include_url=False)}
    if wrong & {"task", "inputs"}:
        found.settle()
    return ExperimentFile.model_validate(
        {name: value for name, value in fields.items() if name not in wrong}
    )


def _plan(given: ExperimentFile, name: str, arms: tuple[Arm, ...], scoring: Scoring) -> Plan | None:
    """The plan, whose budget is read apart; None without arms, which were refused before."""
    fields = {
        "name": given.name or name,
        "repeats": given.repeats,
        "parallel": given.parallel,
        "arms": arms,
        "scoring": scoring,
    }
    try:
        return Plan.model_validate(fields)
    except ValidationError as error:
        problems = [one for one in problems_of(error, fields) if one.path != "arms"]
    if problems:
        raise experiment_error(problems)
    return None


def _with_entries(
    plan: Plan, entries: Sequence[Entry], surroundings: Surroundings, *, first: Entry
) -> Plan:
    """The plan with the most that a run of each arm may spend over these inputs.

    `first` is the first input of the experiment, with which its arms were read.

    Raises:
        InvalidInput: an input changes fields of the task to what cannot be run.
    """
    arms = (_with_limits(arm, plan, entries, surroundings, first=first) for arm in plan.arms)
    return plan.model_copy(update={"arms": tuple(arms)})


def _with_limits(
    arm: Arm, plan: Plan, entries: Sequence[Entry], surroundings: Surroundings, *, first: Entry
) -> Arm:
    usd, tokens = [arm.most_usd], [arm.most_tokens]
    # Of inputs that set the same the first stands for all: they differ from it only in texts. Where
    # the first of all sets nothing, such inputs need no look: it was read with each arm.
    for entry in (entry for entry in differing(entries) if entry.fields or first.fields):
        task = trial_task(arm, entry, label=plan.name)
        try:
            # Without a folder: its defaults are in the arm's task, and inputs name no files.
            spec = load_data(task, surroundings=replace(surroundings, folder=None)).spec
        except InvalidInput as error:
            raise InvalidInput(f"inputs.{entry.name}: {error.message}", cure=error.cure) from None
        usd.append(spec.budget.cost_usd or None)
        tokens.append(spec.budget.tokens or None)
    return arm.model_copy(update={"most_usd": highest(usd), "most_tokens": highest(tokens)})
