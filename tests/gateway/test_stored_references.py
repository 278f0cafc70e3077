"""What a specification names and the stores lack is told before a run starts."""

from pathlib import Path

import pytest
from remembering import skill

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.agent.spec import AgentSpec
from perdure.gateway.stored_references import StoredReferences


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (("Counting", "counting"), []),
        (("whales",), ['skills[0]: there is no skill "whales". `perdure skills` lists them']),
        (
            ("counting", "counting-x"),
            ['skills[1]: there is no skill "counting-x". Did you mean counting?'],
        ),
    ],
    ids=["whatever its case", "unknown", "misspelt"],
)
async def test_skills_that_nobody_knows_are_told_with_the_nearest(
    named: tuple[str, ...], told: list[str], tmp_path: Path
) -> None:
    spec = AgentSpec(kind="agent", goal="g", recall=True, skills=named)
    stores = await open_stores(tmp_path)
    try:
        await stores.memory.put(skill("counting"))
        found = await StoredReferences(stores).problems(spec)
    finally:
        await stores.close()
    assert found == told
