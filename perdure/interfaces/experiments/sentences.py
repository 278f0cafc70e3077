"""What two arms of an experiment are to each other, in a sentence."""

from perdure.interfaces.experiments.statistics import Interval

SAME_SPEND = 0.1
"""Two arms whose mean tokens differ by a smaller share than this spend the same."""

LEAST_SHARE = 0.01
"""A smaller share of another arm's tokens is not written in digits."""


def sentence(
    better: str, worse: str, found: Interval, *, tokens: tuple[float, float], losses: int
) -> str:
    """Say by how much an arm is better than another, and for how much.

    Args:
        better: the arm with the higher mean.
        worse: the other one.
        found: the mean difference.
        tokens: the mean tokens of both, in this order.
        losses: the inputs on which `better` is worse.
    """
    if found.low is None or found.high is None:
        return (
            f"Too few inputs to compare {better} with {worse}: {found.count}. "
            "5 are the fewest, 30 tell more."
        )
    same = found.low == found.high
    numbers = (
        f"{found.mean:.2f}" if same else f"{found.mean:.2f} ({found.low:.2f} to {found.high:.2f})"
    )
    spend = _spend(better, worse, *tokens)
    if not found.differs:
        return (
            f"No difference between {better} and {worse} can be told: {numbers} "
            f"on {'each of ' if same else ''}{found.count} inputs, {spend}."
        )
    each = ", the same on each input," if same else ""
    worse_on = f"on {losses} of {found.count} inputs it is worse"
    return f"{better} beats {worse} by {numbers}{each} {spend}; {worse_on}."


def _spend(better: str, worse: str, used: float, by_worse: float) -> str:
    if not used and not by_worse:
        return "where neither used tokens"
    if not used or not by_worse:
        return f"where {worse if used else better} used no tokens"
    times = used / by_worse
    if abs(times - 1) < SAME_SPEND:
        return "at the same spend"
    if times < LEAST_SHARE:
        return f"for under {LEAST_SHARE:g} times the tokens"
    # One digit of a small share would say that the better arm cost nothing.
    return f"for {times:.{2 if times < 0.1 else 1}f} times the tokens"
