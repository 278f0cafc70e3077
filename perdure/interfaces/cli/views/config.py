"""The settings as people read them."""

from collections.abc import Sequence

from rich.console import RenderableType

from perdure.domain.configuration import Setting
from perdure.interfaces.cli.views.layout import DIM, line, stack, table


def config_view(found: Sequence[Setting]) -> RenderableType:
    """Name, value and source; those that somebody set come first."""
    ordered = sorted(found, key=lambda one: (one.source == "default", one.name))
    rows = [(one.name, one.value or "–", one.source) for one in ordered]
    differing = [
        line((f"the services use {one.name} {one.services}: the home's file says so", DIM))
        for one in ordered
        if one.services
    ]
    return stack(table(("setting", "value", "from"), rows, whole=("setting",)), *differing)
