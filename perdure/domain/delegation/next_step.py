"""What the loop does next: the closed set of answers that the rules give it."""

from dataclasses import dataclass

from perdure.domain.delegation.decisions import Complete, Envelope, Hypothesis
from perdure.domain.evaluation.outcomes import RunEnd


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The reply could not be read; the manager is asked once more, with the problems."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompletionRefused:
    """The decision is not carried out; the manager is told why in its next view."""

    why: str


@dataclass(frozen=True, slots=True)
class Work:
    """Run these workers; the deferred ones were more than an iteration takes."""

    envelopes: tuple[Envelope, ...]
    deferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan was taken; there is nothing to run."""


@dataclass(frozen=True, slots=True)
class Test:
    """Test these hypotheses with light workers."""

    __test__ = False  # pytest would take the name for a test class

    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Run the gates over a claimed completion."""

    complete: Complete


@dataclass(frozen=True, slots=True)
class Rate:
    """All gates passed; the rubric scores what is handed over."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Open a gate."""

    question: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """Run one critical repair, then let the manager go on."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class End:
    """The run is over."""

    verdict: RunEnd


Directive = AskAgain | CompletionRefused | Work | Planned | Test | Check | AskPerson | End
AfterCheck = CompletionRefused | Repair | End
