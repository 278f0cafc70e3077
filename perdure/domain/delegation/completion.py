"""Completion checks: whether a task may end, why not, and when to stop trying."""

import hashlib
from collections.abc import Sequence
from typing import Literal

from pydantic import JsonValue

from perdure.domain.delegation.decisions import Complete, Envelope
from perdure.domain.delegation.placeholders import placeholders
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.summary import is_usable, shortened
from perdure.domain.foundation.base import FrozenModel

CompletionCheck = Literal[
    "output_contract",
    "critique",
    "deliverables",
    "placeholders",
    "parse",
    "success_criteria",
    "smoke",
    "quality",
]
Wanted = Literal["contract", "files", "criteria", "smoke"]
MOST_NAMED = 40
REPAIR_WORKER = "completion_repair"
REPAIRS_OF_COMPLETION = 1


class FileFact(FrozenModel):
    """A deliverable on disk; `problem` says why it does not parse or fit together."""

    path: str
    exists: bool = True
    bytes: int = 0
    placeholders: tuple[str, ...] = ()
    problem: str = ""


class CompletionFacts(FrozenModel):
    """What is known of a claimed completion; None: not looked at yet.

    Args:
        contract: problems of the final result with the schema that was asked for.
        critique: the mean of the reviewers, None for none.
        poor: the pieces of work that scored less than that should be, each with its score.
        files: the deliverables.
        unmet: success criteria that are not met, each with what is missing.
        smoke: what the smoke test said, empty when it passed.
    """

    contract: tuple[str, ...] | None = None
    critique: float | None = None
    poor: tuple[str, ...] = ()
    files: tuple[FileFact, ...] | None = None
    unmet: tuple[str, ...] | None = None
    smoke: str | None = None


class Rejection(FrozenModel):
    """Why a completion is refused: the check that failed, and everything it names.

    `where` tells the manager what to see to; the rejection is the same without it.
    """

    check: CompletionCheck
    named: tuple[str, ...]
    where: str = ""

    @property
    def text(self) -> str:
        """What the manager is told."""
        said = "; ".join((*self.named, *([self.where] if self.where else [])))
        return f"Not complete ({self.check}): {said}."

    @property
    def hash(self) -> str:
        """Equal for the same check with the same findings."""
        # Named in any order it is the same rejection. A model's text may hold half of a character,
        # which plain UTF-8 refuses.
        whole = "\n".join((self.check, *sorted(self.named)))
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class Breaker(FrozenModel):
    """Refused completions: the newest, how often in a row, and since work was accepted."""

    last: str = ""
    in_a_row: int = 0
    since_progress: int = 0
    trips: int = 0

    def after_progress(self) -> "Breaker":
        """The breaker after a delegation with a usable result: counting begins anew."""
        # `trips` stays: a run gets one repair, however much work lies between two refusals.
        return Breaker(trips=self.trips)

    def after(self, rejection: Rejection, *, cap: int) -> "tuple[Breaker, bool]":
        """The breaker after one more refusal, and whether it trips; a cap of 0 never does."""
        row = self.in_a_row + 1 if rejection.hash == self.last else 1
        since = self.since_progress + 1
        # The second bound ends refusals that take turns and so are never equal in a row.
        if cap and (row >= cap or since >= 2 * cap):
            # Counting begins anew: the completion after the repair gets all its tries.
            return Breaker(trips=self.trips + 1), True
        counted = Breaker(last=rejection.hash, in_a_row=row, since_progress=since, trips=self.trips)
        return counted, False


def expected_files(complete: Complete, settings: DelegationSettings) -> tuple[str, ...]:
    """The files that must be there: those of the task, then those that the manager lists."""
    return tuple(dict.fromkeys((*settings.deliverables, *complete.deliverables)))


def completion_step(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | Wanted | None:
    """The first check that fails, or the fact that the next one needs; None: all pass."""
    # Cheap facts first: a completion without its files pays for no reviewer and no smoke test.
    for check in (_contract, _critique, _files, _criteria, _smoke):
        found = check(complete, facts, settings)
        if found is not None:
            return found
    return None


def facts_still_wanted(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> tuple[Wanted, ...]:
    """Facts that a repair could use, but that nobody gathered because an earlier check failed."""
    wanted: list[Wanted] = []
    if settings.output_schema is not None and facts.contract is None:
        wanted.append("contract")
    if facts.files is None and expected_files(complete, settings):
        wanted.append("files")
    return tuple(wanted)


def everything_wrong(complete: Complete, facts: CompletionFacts) -> tuple[str, ...]:
    """All that a repair can be told by name: missing, empty, unfinished, broken, of wrong shape."""
    files = facts.files or ()
    # Opinions of reviewers, criteria and the smoke test name nothing that can be put right one by
    # one. With nothing to name the run ends instead of paying for a repair.
    found = [*(facts.contract or ()), *_missing(files), *_unfinished(complete, files)]
    return tuple(dict.fromkeys((*found, *_broken(files))))[:MOST_NAMED]


def completion_repair(named: Sequence[str]) -> Envelope:
    """One critical piece of work that repairs everything that was named."""
    lines = "\n".join(f"- {item}" for item in named)
    return Envelope(
        worker=REPAIR_WORKER,
        instructions=(
            "The task was called complete, but this is wrong. Put all of it right, change nothing "
            f"else, and say what you did:\n{lines}"
        ),
        expected="every point of the list put right",
        acceptance="none of the listed points is wrong any more",
        priority="high",
        # A long list scores as complex, and would make a manager with workers of its own.
        sub_manager=False,
    )


def _contract(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | Wanted | None:
    if settings.output_schema is None:
        return None
    if facts.contract is None:
        return "contract"
    return Rejection(check="output_contract", named=facts.contract) if facts.contract else None


def _critique(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | None:
    least = settings.critique.min_mean
    # None: nothing was reviewed, which is no reason to refuse.
    if facts.critique is None or not settings.critique.enabled or facts.critique >= least:
        return None
    said = f"the reviewers' mean is {facts.critique:.2f}, wanted {least:g}"
    where = f"below that: {', '.join(facts.poor)}" if facts.poor else ""
    return Rejection(check="critique", named=(said,), where=where)


def _files(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | Wanted | None:
    files = facts.files or ()
    if facts.files is None and expected_files(complete, settings):
        return "files"
    if not files and not is_usable(complete.final_result):
        named = ("there is neither a final result nor a deliverable",)
        return Rejection(check="deliverables", named=named)
    named_by: tuple[tuple[CompletionCheck, tuple[str, ...]], ...] = (
        ("deliverables", _missing(files)),
        ("placeholders", _unfinished(complete, files)),
        ("parse", _broken(files)),
    )
    for check, named in named_by:
        if named:
            return Rejection(check=check, named=named)
    return None


def _criteria(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | Wanted | None:
    if not settings.success_criteria:
        return None
    if facts.unmet is None:
        return "criteria"
    return Rejection(check="success_criteria", named=facts.unmet) if facts.unmet else None


def _smoke(
    complete: Complete, facts: CompletionFacts, settings: DelegationSettings
) -> Rejection | Wanted | None:
    if settings.smoke_test is None:
        return None
    if facts.smoke is None:
        return "smoke"
    return Rejection(check="smoke", named=(facts.smoke,)) if facts.smoke else None


def _missing(files: Sequence[FileFact]) -> tuple[str, ...]:
    absent = [f"{item.path} is missing" for item in files if not item.exists]
    empty = [f"{item.path} is empty" for item in files if item.exists and not item.bytes]
    return (*absent, *empty)


def _unfinished(complete: Complete, files: Sequence[FileFact]) -> tuple[str, ...]:
    said = [
        f"{item.path} holds placeholders: {shortened(', '.join(item.placeholders))}"
        for item in files
        if item.placeholders
    ]
    marks = placeholders(_texts_of(complete.final_result))
    said += [f"the final result holds placeholders: {shortened(', '.join(marks))}"] * bool(marks)
    return tuple(said)


def _broken(files: Sequence[FileFact]) -> tuple[str, ...]:
    return tuple(f"{item.path}: {shortened(item.problem)}" for item in files if item.problem)


def _texts_of(value: JsonValue) -> str:
    match value:
        case str():
            return value
        case list():
            return "\n".join(_texts_of(item) for item in value)
        case dict():
            return "\n".join(_texts_of(item) for item in value.values())
        case _:
            return ""
