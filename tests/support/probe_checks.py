"""A module of checks for tests, as the setting `plugins` names one."""

from perdure import check


@check()
def probe(output: str) -> bool:
    """Whether anything was written."""
    return bool(output)
