"""The console script: builds the context, runs one command, and exits with its code."""

import os
import signal
import sys
from io import TextIOWrapper
from typing import Literal, TextIO

from perdure.about import VERSION
from perdure.domain.foundation.errors import PerdureError


def main() -> None:
    """Run the command line of this process."""
    # Nothing is open yet, so Ctrl-C may end the process until a command handles it itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A parent may have closed them (`<&-`): nothing is read, and what is said goes nowhere.
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            _takes_every_sign(stream)
    if sys.argv[1:] == ["--version"]:
        # Before any import that reads settings: a wrong file must not hide the version.
        sys.stdout.write(f"{VERSION}\n")
        return
    # Imported here, so that a wrong setting gives a sentence and not a traceback.
    from perdure.cli_wiring import app_context, bare_context
    from perdure.interfaces.cli import app
    from perdure.interfaces.cli.invoke import without_json

    try:
        # A wrong settings file must not keep `config` from correcting it.
        mends = without_json(sys.argv[1:])[0][:1] == ["config"]
        context = bare_context() if mends else app_context()
    except PerdureError as error:
        app.leave(app.refuse(error, sys.argv[1:]))
    app.leave(app.main(context, sys.argv[1:]))


def _nowhere(mode: Literal["r", "w"] = "w") -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")


def _takes_every_sign(stream: TextIOWrapper) -> None:
    """Make a stream take every text, whatever the locale: no reply is lost to a missing sign.

    Pipes and files get UTF-8 unless `PYTHONIOENCODING` names another encoding; a sign that an
    encoding or a terminal lacks is shown by its number.
    """
    told = stream.isatty() or "PYTHONIOENCODING" in os.environ
    encoding = stream.encoding if told else "utf-8"
    stream.reconfigure(encoding=encoding, errors="backslashreplace")


if __name__ == "__main__":
    main()
