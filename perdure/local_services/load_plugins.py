"""The process that loads plugins aside, `python -P -m perdure.local_services.load_plugins`."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from perdure.adapters.logging.setup import configure_logging
from perdure.adapters.plugin_modules import plugin_module
from perdure.adapters.plugins import plugin_checks, plugin_hooks, plugin_tools
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import PerdureError
from perdure.local_services.plugin_trial import Word


def load(settings: Settings, report: Callable[[Word], None]) -> None:
    """Load all that a worker would, and report each step."""
    try:
        for name in settings.plugins:
            report(Word(loading=name))
            plugin_module(name)
        report(Word(loading="of an installed package"))
        for kind in (plugin_tools, plugin_checks, plugin_hooks):
            kind(settings.plugins)
    except PerdureError as error:
        report(Word(message=error.message, cure=error.cure))
    else:
        report(Word(loaded=True))


def main() -> None:
    # What a plugin prints goes to the log, like that of the worker.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            line_buffering=True
        )  # so that the last words of a hung one are there

    def report(word: Word) -> None:
        answers.write(word.model_dump_json() + "\n")
        answers.flush()

    configure_logging(json=True)
    load(Settings.load(), report)
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # threads that a plugin started do not hold it up


if __name__ == "__main__":
    main()
