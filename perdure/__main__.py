"""The console script: builds the context, runs one command, and exits with its code."""

import signal
import sys

from perdure.about import VERSION
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.plain_text import printable


def main() -> None:
    """Run the command line of this process."""
    # Nothing is open yet, so Ctrl-C may end the process until a command handles it itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{VERSION}\n")
        return
    # Imported here, so that a wrong setting gives a sentence and not a traceback.
    from perdure.cli_wiring import app_context, bare_context
    from perdure.interfaces.cli import app

    try:
        # A wrong settings file must not keep `config` from correcting it.
        mends = sys.argv[1:2] == ["config"]
        context = bare_context() if mends else app_context()
    except PerdureError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        app.leave(error.exit_code)
    app.leave(app.main(context, sys.argv[1:]))


if __name__ == "__main__":
    main()
