"""The REST API and the pages as a process: settings become an application on a port."""

import asyncio
import signal

from perdure.about import VERSION
from perdure.adapters.checks import check_problems
from perdure.adapters.llm.access import access_from, default_model, model_notes
from perdure.adapters.logging.process_logs import log_process
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.client_services import services
from perdure.interfaces.rest.app import build_app
from perdure.interfaces.rest.server import require_token_beyond_loopback, serve
from perdure.interfaces.rest.settings import ApiRules, ApiSite
from perdure.interfaces.services import OnProgress
from perdure.interfaces.web.app import Doors, build_pages
from perdure.local_services.embedded import EmbeddedRuntime
from perdure.submission.types import Surroundings

DEFAULTS_FILE = "perdure.yaml"


async def run_api(settings: Settings, on_ready: OnProgress) -> None:
    """Answer until SIGTERM or SIGINT.

    Raises:
        NotAllowed: others could reach it, and there is no token.
        ServiceUnavailable: the address cannot be listened on.
    """
    if settings.log_format == "json":
        log_process(settings)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with services(settings, start=False, on_progress=on_ready) as found:
        site = ApiSite(
            services=found,
            surroundings=surroundings_of(settings),
            rules=rules_of(settings),
            now=utc_now,
            version=VERSION,
            in_use=EmbeddedRuntime(settings).touch,
        )
        await require_token_beyond_loopback(site, settings.api_host)
        api = build_app(site)
        await serve(
            Doors(api=api, pages=build_pages(site, api)),
            host=settings.api_host,
            port=settings.api_port,
            stop=stop,
            on_ready=on_ready,
            hosts=settings.api_hosts,
        )


def rules_of(settings: Settings) -> ApiRules:
    """What the settings allow callers."""
    return ApiRules(
        rate_per_minute=settings.api_rate_per_minute,
        body_bytes=settings.api_body_bytes,
        origins=settings.api_origins,
        public=frozenset(settings.api_public),
        separate_approver=settings.api_separate_approver,
    )


def surroundings_of(settings: Settings) -> Surroundings:
    """Where submissions are made: the operator's defaults count, no file is read."""
    return Surroundings(
        folder=None,
        user_defaults=settings.home / DEFAULTS_FILE,
        default_model=default_model(access_from(settings)),
        rubric_problems=check_problems,
        model_notes=model_notes,
        settings=frozenset(Settings.model_fields),
    )
