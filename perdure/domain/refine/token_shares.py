"""How much of a run's tokens may be spent by the end of each iteration.

Recall has a tenth, the first three iterations 30, 35 and 25 %; with more iterations the rest is
split evenly. What one does not use rolls on to the next, so the shares are ceilings of the sum.
"""

from perdure.domain.budget.envelope import Budget

RECALL_SHARE = 0.10
FIRST_SHARE = 0.30
SECOND_SHARE = 0.35


def ceiling(iteration: int, *, permitted: int) -> float:
    """The part of all tokens that may be spent when `iteration` of `permitted` ends, from 0 to 1.

    The last permitted iteration may spend everything.
    """
    if iteration >= permitted:
        return 1.0
    first = RECALL_SHARE + FIRST_SHARE
    if iteration <= 1:
        return first
    first_two = first + SECOND_SHARE
    return first_two + (1.0 - first_two) * (iteration - 2) / (permitted - 2)


def share_used(budget: Budget, iteration: int, *, permitted: int) -> bool:
    """Whether an iteration has used what it may; never without a token limit."""
    limit = budget.limits.tokens
    if not limit:
        return False
    return budget.spent.tokens >= ceiling(iteration, permitted=permitted) * limit
