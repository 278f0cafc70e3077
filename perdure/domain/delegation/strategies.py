"""What a manager is told to try when the work is stuck."""

from collections.abc import Mapping

from perdure.domain.delegation.settings import StrategyName

INSTRUCTIONS: Mapping[StrategyName, str] = {
    "decompose_finer": (
        "Break what is stuck into smaller pieces: plan or delegate steps that each produce one "
        "thing that can be checked by itself."
    ),
    "simplify": (
        "Reduce the scope: drop what the success criteria do not demand, take the simplest version "
        "that meets them, and finish that first."
    ),
    "reframe": (
        "Come at it from another side: question an assumption that all attempts so far shared, and "
        "delegate work that does without it."
    ),
    "escalate": "A person was asked. Follow the answer; without one, finish with what there is.",
}


def strategy_text(strategy: StrategyName | None, why: str) -> str:
    """The strategy in force and the reason for it; empty while there is none."""
    if strategy is None:
        return ""
    reason = f" (because {why})" if why else ""
    return f"{strategy}{reason}: {INSTRUCTIONS[strategy]}"
