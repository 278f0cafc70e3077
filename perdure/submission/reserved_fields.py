"""Fields that only the product fills in, which nobody may bring along from outside."""

from collections.abc import Mapping

from perdure.domain.foundation.problems import Problem, shown
from perdure.domain.run.spec import ROOT_RUN, STARTED_BY
from perdure.submission.layers import Fields, values_at

# By a snapshot of its own, a run would have other stages than the definition that it names, which
# is the one that is judged by who may start it.
_SNAPSHOT = (
    "the installation takes the snapshot from the definition. Leave it out, and name a definition "
    "with roles.definition"
)
_BELONGS = (
    "it says which run's agent started a loop, and is set by the tools that start loops. Leave it "
    "out, or use another name"
)
RESERVED: Mapping[tuple[str, str], str] = {
    ("roles", "snapshot"): _SNAPSHOT,
    ("metadata", STARTED_BY): _BELONGS,
    ("metadata", ROOT_RUN): _BELONGS,
}


def reserved(whole: Fields, before: Fields) -> list[Problem]:
    """The reserved fields that are not as before.

    Args:
        whole: the fields of a specification.
        before: those of the run that it is made from, which may have been filled in; else none.
    """
    return [
        Problem(path=".".join(steps), found=f"found {shown(now)}", why=why)
        for steps, why in RESERVED.items()
        # What is null is not there.
        if (now := next(values_at(whole, steps), None)) != next(values_at(before, steps), None)
    ]
