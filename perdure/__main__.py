"""The console script: builds the context, runs one command, and leaves with its exit code."""

import sys

from perdure.domain.errors import PerdureError


def main() -> None:
    """Run the command line of this process."""
    # Imported here so that a broken setting is told as a sentence, not as a traceback.
    from perdure.context import app_context
    from perdure.interfaces.cli import app

    try:
        context = app_context()
    except PerdureError as error:
        sys.stderr.write(f"{error}\n")
        app.leave(error.exit_code)
    app.leave(app.main(context, sys.argv[1:]))


if __name__ == "__main__":
    main()
