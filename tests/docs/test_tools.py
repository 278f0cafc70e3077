"""The page on tools lists the tools that there are, with the levels that offer them."""

from pathlib import Path

from perdure.adapters.settings.variables import Settings
from perdure.composition.parts import open_parts
from perdure.domain.tools.definitions import AccessLevel
from perdure.domain.tools.selection import offers
from tests.docs.test_pages import page

LEVELS: tuple[AccessLevel, ...] = ("minimal", "readonly", "readonly-shell", "full")
WORDS: dict[tuple[str, ...], str] = {
    ("readonly", "readonly-shell", "full"): "all but `minimal`",
    ("readonly-shell", "full"): "`readonly-shell`, `full`",
    ("full",): "`full`",
}


async def test_the_page_on_tools_has_every_tool_with_its_levels(tmp_path: Path) -> None:
    async with open_parts(Settings.load(home=tmp_path)) as parts:
        catalog = [fact for fact in await parts.tools.catalog() if not fact.meta]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page("tools.md").splitlines()
        if line.startswith("| `")
    ]
    documented = {cells[0].strip("`"): (cells[1], cells[2] == "runs of roles") for cells in rows}
    assert documented == {
        fact.name: (WORDS[tuple(level for level in LEVELS if offers(level, fact))], fact.shared)
        for fact in catalog
        if not fact.name.startswith("loop_")
    }
