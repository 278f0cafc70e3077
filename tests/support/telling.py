"""What a terminal without colours tells of a run, from its events and its result."""

from installation import Installation

from perdure.interfaces.cli.views.events import Story
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.result import done_line


async def told(site: Installation, run: str) -> list[str]:
    """The lines of `perdure watch` up to `[done]`."""
    story = Story(await site.status(run))
    lines = [story.line(event) async for event in site.gateway.events(run)]
    shown = [line.plain for line in lines if line is not None]
    return [*shown, plain(done_line(await site.gateway.result(run)))]
