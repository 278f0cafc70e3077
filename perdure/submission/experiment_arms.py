"""Reads the arms of an experiment: what each changes of the task, and how often it tries."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from perdure.domain.experiments.plan import (
    MOST_ARMS,
    MOST_TRIES,
    Arm,
    Entry,
    Fields,
    Tries,
    over,
    trial_task,
)
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, format_value, nearest_name
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.specs import Spec
from perdure.submission.findings import Findings, experiment_error
from perdure.submission.layers import steps_of
from perdure.submission.loading import load, load_data
from perdure.submission.types import Flags, Submission, Surroundings

BEST_OF, OF = "best_of", "of"
ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
# How the ids of an arm's further tries and of its judges end, so an arm's own name must not.
ENDS_OF_IDS = re.compile(r"-(\d+|judge)$")
WITHOUT_MEMORY: Fields = {"recall": False, "learn": False}
ONE_ITERATION: Fields = {"refine": {"max_iterations": 1, "min_iterations": 1}}
USUAL_ARMS: dict[str, JsonValue] = {
    "loop": {},
    "single": {"refine.max_iterations": 1},
    BEST_OF: {BEST_OF: "same_tokens"},
}


@dataclass(frozen=True, slots=True)
class WrittenArm:
    """An arm as written: the fields that it changes, and how often it tries."""

    name: str
    fields: Fields
    tries: str | int | None
    of: str | None

    def changed(self, spec: Spec) -> Fields:
        """What it changes of a task: where it tries several times, each is a single iteration."""
        once = self.tries is not None and isinstance(spec, RefineSpec)
        return over(ONE_ITERATION, self.fields) if once else self.fields


def written_arms(given: dict[str, JsonValue] | None, found: Findings) -> list[WrittenArm]:
    """The arms of the file that are well formed; by default the usual three."""
    if given is None:
        given = USUAL_ARMS
    elif not 0 < len(given) <= MOST_ARMS:
        allowed = f"1 to {MOST_ARMS} arms"
        found.add(experiment_error([Problem(path="arms", found=str(len(given)), allowed=allowed)]))
    read = (found.part(lambda arm=arm: _written(*arm)) for arm in given.items())
    return [arm for arm in read if arm is not None]


def _written(name: str, given: JsonValue) -> WrittenArm:
    problems: list[Problem] = []
    if not ARM_NAME.fullmatch(name) or ENDS_OF_IDS.search(name):
        allowed = (
            "letters, digits, - and _, at most 32, without a number or `judge` after the last -"
        )
        problems.append(Problem(path=f"arms.{name}", found=format_value(name), allowed=allowed))
    if given is not None and not isinstance(given, dict):
        allowed = "fields of the task that it changes, or {} for none"
        problems.append(Problem(path=f"arms.{name}", found=format_value(given), allowed=allowed))
    fields = dict(given) if isinstance(given, dict) else {}
    # Without `best_of` it stays in, and is refused as a field that no task has.
    of = fields.pop(OF, None) if BEST_OF in fields else None
    tries = fields.pop(BEST_OF, None)
    # To Python, True is the integer 1.
    count = isinstance(tries, int) and not isinstance(tries, bool) and 1 <= tries <= MOST_TRIES
    # No set: a list or an object can be no member of one, and Python raises an error.
    if not (tries is None or count or tries in ("same_tokens", "same_calls")):
        allowed = f"same_tokens, same_calls or a number from 1 to {MOST_TRIES}"
        path = f"arms.{name}.{BEST_OF}"
        problems.append(Problem(path=path, found=format_value(tries), allowed=allowed))
    if not (of is None or isinstance(of, str)):
        path = f"arms.{name}.{OF}"
        problems.append(
            Problem(path=path, found=format_value(of), allowed="the name of an arm, a text")
        )
    if problems:
        raise experiment_error(problems)
    wanted = tries if isinstance(tries, str | int) else None
    return WrittenArm(name, _nested(fields), wanted, of if isinstance(of, str) else None)


def _nested(fields: Fields) -> Fields:
    """The fields with dotted names as blocks, as `refine.max_iterations` is a field of `refine`."""
    whole: Fields = {}
    for path, value in fields.items():
        steps = [str(step) for step in steps_of(path)] or [path]
        nested: Fields = {steps[-1]: value}
        for step in reversed(steps[:-1]):
            nested = {step: nested}
        whole = over(whole, nested)
    return whole


def submitted_arms(
    task: str | Fields,
    arms: Sequence[WrittenArm],
    first: Entry,
    surroundings: Surroundings,
    found: Findings,
) -> dict[str, Submission]:
    """Each arm's task with the first input, read as `perdure run` would read it.

    Returns:
        Those that can be run, by the names of their arms.
    """
    submitted, wrong = dict[str, Submission](), dict[str, list[tuple[str, InvalidInput]]]()
    for arm in arms:
        try:
            submitted[arm.name] = _submitted(task, arm, first, surroundings)
        except InvalidInput as error:
            wrong.setdefault(error.message, []).append((arm.name, error))
    for same in wrong.values():
        names, refusal = [name for name, _ in same], same[0][1]
        # A mistake in the task itself is told once, not once for each arm.
        shared = len(names) == len(arms) > 1
        places = ["task"] if shared else [f"arms.{name}" for name in names]
        found.add(
            InvalidInput(
                f"{'every arm' if shared else ', '.join(places)}: {refusal.message}",
                cure=refusal.cure,
                problems=(
                    (f"{place}.{path}", words)
                    for place in places
                    for path, words in refusal.problems
                ),
            )
        )
    return submitted


def _submitted(
    task: str | Fields, arm: WrittenArm, first: Entry, surroundings: Surroundings
) -> Submission:
    own = Arm(name=arm.name, task={})
    entered = trial_task(own, first, label="experiment")
    # Its label is a stand-in: trials get the experiment's id, which is not known yet.
    entered.pop("metadata")
    below = over(WITHOUT_MEMORY, entered)
    # The arm's own fields come last, as in its trials.
    plain = _load(task, Flags(fields=over(below, arm.fields)), surroundings)
    # Read as it is at first: only that tells whether it is a loop that iterates.
    changed = arm.changed(plain.spec)
    if changed == arm.fields:
        return plain
    return _load(task, Flags(fields=over(below, changed)), surroundings)


def _load(task: str | Fields, flags: Flags, surroundings: Surroundings) -> Submission:
    if isinstance(task, str):
        return load(task, flags, surroundings=surroundings)
    return load_data(task, flags, surroundings=surroundings)


def shared_arms(
    task: str | Fields,
    arms: Sequence[WrittenArm],
    first: Entry,
    surroundings: Surroundings,
    submitted: Mapping[str, Submission],
) -> dict[str, Submission]:
    """The submitted arms without what the first input sets, which holds for that input alone.

    An arm whose task cannot be read without it is not among them.
    """
    if not first.fields:
        return dict(submitted)
    bare = first.model_copy(update={"fields": {}})
    found: dict[str, Submission] = {}
    for arm in arms:
        if arm.name in submitted:
            with suppress(InvalidInput):
                found[arm.name] = _submitted(task, arm, bare, surroundings)
    return found


def stored_arms(
    written: Sequence[WrittenArm],
    specs: Mapping[str, Spec],
    shared: Mapping[str, Spec],
    first: Entry,
    found: Findings,
) -> tuple[Arm, ...]:
    """The arms as they are stored.

    Args:
        written: all arms of the file.
        specs: those that can be run, with the first input.
        shared: the same without what that input sets, where that is a task.
        first: the first input.
        found: takes what is wrong.
    """
    read = [
        found.part(
            lambda arm=arm: _stored(arm, specs[arm.name], shared.get(arm.name), written, first)
        )
        for arm in written
        if arm.name in specs
    ]
    return tuple(arm for arm in read if arm is not None)


def _stored(
    arm: WrittenArm,
    spec: Spec,
    shared: Spec | None,
    all_arms: Sequence[WrittenArm],
    first: Entry,
) -> Arm:
    """The arm with its whole task, without the values of the first input."""
    task: Fields = (shared or spec).model_dump(mode="json", by_alias=True)
    own = _among(task, arm.changed(spec))
    if shared is None:
        # Every input has to set these: one that does not is refused with the others.
        _drop(task, first.fields)
    context = task.get("context")
    if isinstance(context, dict):
        task["context"] = {key: text for key, text in context.items() if key not in first.context}
    return Arm(
        name=arm.name,
        task=task,
        own=own,
        tries=_tries(arm, all_arms),
        # Zero means unlimited.
        most_usd=spec.budget.cost_usd or None,
        most_tokens=spec.budget.tokens or None,
    )


def _among(task: Fields, given: Fields) -> Fields:
    """What a whole task says of fields that were given, those of blocks one by one."""
    found: Fields = {}
    for name, value in given.items():
        if name not in task:
            continue  # written in a short form, which stands in the task under another name
        block = task[name]
        if isinstance(block, dict) and isinstance(value, dict):
            block = _among(block, value)
        found[name] = block
    return found


def _drop(task: Fields, given: Fields) -> None:
    """Take fields out of a task, those of blocks one by one."""
    for name, value in given.items():
        block = task.get(name)
        if isinstance(block, dict) and isinstance(value, dict):
            _drop(block, value)
        else:
            task.pop(name, None)


def _tries(arm: WrittenArm, all_arms: Sequence[WrittenArm]) -> Tries | None:
    if arm.tries is None:
        return None
    if isinstance(arm.tries, int):
        return Tries(count=arm.tries)
    names = [one.name for one in all_arms if one.tries is None]
    of = arm.of or (names[0] if names else None)
    if of not in names:
        near = nearest_name(of, names) if of else None
        allowed = (
            f"one of {', '.join(names)}" if names else "an arm without best_of to compare with"
        )
        path = f"arms.{arm.name}.{OF}"
        raise experiment_error(
            [Problem(path=path, found=format_value(of), allowed=allowed, nearest=near)]
        )
    spend: Literal["same_tokens", "same_calls"] = (
        "same_calls" if arm.tries == "same_calls" else "same_tokens"
    )
    return Tries(spend=spend, of=of)
