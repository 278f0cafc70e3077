"""Writes or checks the schema files: `python -P -m perdure.schemas [--check] FOLDER`."""

import sys
from pathlib import Path

from perdure.adapters.llm.script import Script
from perdure.adapters.mcp.server_config import AllowedServers
from perdure.interfaces.schemas import Models, stale_schemas, write_schemas

FILE_FORMATS: Models = {"script": Script, "mcp": AllowedServers}
USAGE = "usage: python -P -m perdure.schemas [--check] FOLDER\n"


def main(arguments: list[str]) -> int:
    """Write every schema into a folder, or with `--check` only report outdated ones."""
    names = [word for word in arguments if word != "--check"]
    if len(names) != 1 or names[0].startswith("-"):
        sys.stderr.write(USAGE)
        return 2
    folder = Path(names[0])
    if "--check" not in arguments:
        written = write_schemas(folder, FILE_FORMATS)
        sys.stdout.write(f"{len(written)} schemas are in {folder}\n")
        return 0
    stale = stale_schemas(folder, FILE_FORMATS)
    if stale:
        lines = "\n".join(stale)
        sys.stderr.write(f"{lines}\nWrite them anew: python -P -m perdure.schemas {folder}\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
