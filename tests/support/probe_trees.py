"""A check with a parameter for tests of the refine loop, loaded as a plugin."""

from perdure import CheckResult, check


@check(name="probe.trees")
def trees(output: str, least: int) -> CheckResult:
    """At least so many words.

    Args:
        output: the draft.
        least: how many words it needs.
    """
    found = len(output.split())
    return CheckResult(min(1.0, found / least), f"{found} of {least} trees", "Name more trees.")
