"""The loops and roles that come with the product."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from perdure.adapters.definitions.parsing import Parse, role_file, stored
from perdure.domain.roles.library import RoleFile, StoredDefinition, refusal

DEFINITIONS = Path(str(files("perdure"))) / "definitions"


@cache
def built_in_loops(parse: Parse) -> dict[str, StoredDefinition]:
    """The built-in definitions by name; a test proves that each is valid."""
    found: dict[str, StoredDefinition] = {}
    for path in sorted((DEFINITIONS / "loops").glob("*.yaml")):
        fields = parse(path.read_text(encoding="utf-8"), named=path.name)
        read = stored(fields, origin="built-in")
        if isinstance(read, tuple):
            raise refusal(read, what=f"The built-in loop {path.stem}")
        found[read.name] = read
    return found


@cache
def built_in_roles(parse: Parse) -> dict[str, RoleFile]:
    """The built-in roles by name."""
    paths = sorted((DEFINITIONS / "roles").glob("*.md"))
    return {
        path.stem: role_file(path.read_text(encoding="utf-8"), name=path.stem, parse=parse)
        for path in paths
    }
