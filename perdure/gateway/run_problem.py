"""What keeps a run from making progress, and the causes known by the words of a failure."""

import re
from dataclasses import dataclass

from perdure.domain.foundation.names import SEARCH_ATTRIBUTES, retyping_commands

FAILING = "code: "
UNKNOWN_TYPE = "no worker on its queue knows the workflow type"
# The words of the SDK's worker.
_UNKNOWN_TYPE = re.compile(
    r"workflow class (\S+) is not registered on this worker, available workflows: (.+)",
    re.IGNORECASE | re.DOTALL,
)
# Our worker's words for a large value of a history whose blob is missing.
_LOST = re.compile(r"kept elsewhere, and is not there: The blob (\S+) is not in this store")
# The server's words for a search attribute that somebody removed from the namespace.
_LACKING = re.compile(
    r"namespace (\S+) has no mapping defined for search attribute (\w+)", re.IGNORECASE
)
# The server's words for one that has another type than what the run writes.
_MISTYPED = re.compile(r"invalid value for search attribute (\w+) of type (\w+)", re.IGNORECASE)
# Our codec's words for a value of somebody who has no key.
_UNSEALED = "came unencrypted although a key is set"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProblem:
    """What keeps a run from making progress.

    Args:
        mark: identifies the problem; a new attempt of a step is a new problem.
        found: what is wrong, for people.
        cure: what to do, if somebody has to do something.
    """

    mark: str
    found: str
    cure: str = ""

    @property
    def text(self) -> str:
        return f"{self.found} {self.cure}".strip()


def known_cause(why: str, *, run: str, namespace: str) -> RunProblem | None:
    """The problem of a run whose code failed with these words in the worker, if they are known."""
    unknown = _UNKNOWN_TYPE.search(why)
    if unknown is not None:
        return _of_unknown_type(run, *unknown.groups())
    lost = lost_value(why)
    if lost is not None:
        return _of_lost_value(run, lost)
    lacking = _LACKING.search(why)
    if lacking is not None and lacking[2] in SEARCH_ATTRIBUTES:
        return _of_lacking_attribute(*lacking.groups())
    mistyped = _MISTYPED.search(why)
    if mistyped is not None and mistyped[1] in SEARCH_ATTRIBUTES:
        return _of_mistyped_attribute(namespace, *mistyped.groups())
    if _UNSEALED in why:
        return _of_unsealed_value(run)
    return None


def _of_unknown_type(run: str, name: str, known: str) -> RunProblem:
    return RunProblem(
        mark=f"{FAILING}{UNKNOWN_TYPE} {name}",
        found=f"the run waits: {UNKNOWN_TYPE} `{name}`. Its workers know {known.rstrip('. ')}.",
        cure="Start a worker that has it (of the version that the run was started with, or with "
        "its plugin); where the name is wrong, end it, and start it anew: "
        f"`temporal workflow terminate --workflow-id {run}`.",
    )


def _of_lacking_attribute(namespace: str, name: str) -> RunProblem:
    return RunProblem(
        mark=f"{FAILING}lacking {name}",
        found=f"the run waits: the namespace {namespace} lacks the search attribute {name}, which "
        "every run writes; the run is not lost.",
        cure="Add it, and the run goes on by itself: `temporal operator search-attribute create "
        f"--namespace {namespace} --name {name} --type {SEARCH_ATTRIBUTES[name]}`; "
        "`perdure doctor` names all that are missing.",
    )


def _of_mistyped_attribute(namespace: str, name: str, found: str) -> RunProblem:
    if found == SEARCH_ATTRIBUTES[name]:
        # Its type is right. To remove it would lose what all runs wrote there, and mend nothing.
        return RunProblem(
            mark=f"{FAILING}misvalued {name}",
            found=f"the run waits: its worker writes what is no {found} into the search attribute "
            f"{name} of the namespace {namespace}; the run is not lost. Something has changed how "
            "that worker writes values, such as a plugin that replaces functions of `json`.",
            cure="Take that plugin away and start the workers anew (`perdure down`, then `perdure "
            "up --detach`); the run goes on by itself.",
        )
    return RunProblem(
        mark=f"{FAILING}mistyped {name}",
        found=f"the run waits: the search attribute {name} of the namespace {namespace} is "
        f"{found}, and every run writes it as {SEARCH_ATTRIBUTES[name]}; the run is not lost.",
        cure="Give it the right type, and the run goes on by itself: "
        f"`{retyping_commands(namespace, [name])}`.",
    )


def _of_unsealed_value(run: str) -> RunProblem:
    return RunProblem(
        mark=f"{FAILING}unsealed",
        found="the run waits: it came unencrypted although a key is set, so no worker reads it.",
        cure=f"End it (`temporal workflow terminate --workflow-id {run}`) and send it again, with "
        "`perdure` or through a codec (`perdure codec`). If it is from before there was a key, set "
        "PERDURE_ENCRYPTION_PLAIN=read for the workers, and it goes on.",
    )


def lost_value(why: str) -> str | None:
    """The address of the missing blob, if a failure says that a value's blob is missing."""
    found = _LOST.search(why)
    return found and found[1]


def _of_lost_value(run: str, blob: str) -> RunProblem:
    return RunProblem(
        mark=f"{FAILING}lost {blob}",
        found=f"the run cannot go on: a large value of its history is kept in the blob {blob}, "
        "which is not in this store; the run is not lost.",
        cure="Put the blob back from a backup, and the run goes on by itself; or go back to before "
        f"it and make that step again: `perdure repair {run}`.",
    )
