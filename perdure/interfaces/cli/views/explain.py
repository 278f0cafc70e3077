"""The picture of an explanation."""

from rich.console import RenderableType

from perdure.interfaces.cli.views.layout import heading, line, stack
from perdure.interfaces.explanation import Explanation


def explanation_view(explanation: Explanation) -> RenderableType:
    """Three questions and their answers."""
    verdict = f"{explanation.outcome}/{explanation.reason}"
    levers = explanation.would_change or ("Nothing that this run's records show.",)
    return stack(
        heading(f"Why it stopped ({verdict})"),
        line(explanation.why, indent=2),
        heading("What would have changed it"),
        *(line(f"• {lever}", indent=2) for lever in levers),
        heading(f"What the next {explanation.outlook.usd} USD would likely buy"),
        line(explanation.outlook.sentence, indent=2),
    )
