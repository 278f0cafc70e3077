"""The detached supervisor, `python -P -m perdure.local_services`, which `ensure` starts."""

import asyncio
import os
import sys

from perdure.adapters.logging.setup import configure_logging
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import PerdureError
from perdure.event_log import get_logger
from perdure.local_services.supervisor import NOT_ALONE, supervise

_log = get_logger("perdure.supervisor")


def main() -> int:
    configure_logging(json=True)
    try:
        settings = Settings.load()
        deaths = int(sys.argv[1]) if len(sys.argv) > 1 else 0
        ran = asyncio.run(supervise(settings, detached=True, deaths=deaths, idle=settings.idle))
    except PerdureError as error:
        _log.error("supervisor_failed", code=error.code, error=str(error))
        return error.exit_code
    except Exception:
        # The watcher was not dismissed, so it starts a new supervisor.
        _log.exception("supervisor_broke")
        return 1
    return 0 if ran else NOT_ALONE


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The Temporal client may crash an interpreter that shuts down normally.
    os._exit(code)
