"""Runs the REST API and the pages as a process, configured by settings."""

import asyncio
import signal

from perdure.about import VERSION
from perdure.adapters.checks import check_problems
from perdure.adapters.llm.access import access_from, default_model, model_notes
from perdure.adapters.logging.process_logs import log_process
from perdure.adapters.settings.secret_references import resolve_reference
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.composition.client_services import services
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.installation.hosts import host_of_origin, is_loopback
from perdure.domain.installation.single_sign_on import SingleSignOn
from perdure.interfaces.metrics_outlet import MetricsOutlet
from perdure.interfaces.rest.app import build_app
from perdure.interfaces.rest.server import require_token_beyond_loopback, serve
from perdure.interfaces.rest.settings import ApiRules, ApiSite
from perdure.interfaces.services import OnProgress
from perdure.interfaces.web.app import ApiAndPages, build_pages
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.submission.types import Surroundings

DEFAULTS_FILE = "perdure.yaml"


async def run_api(settings: Settings, on_ready: OnProgress) -> None:
    """Answer until SIGTERM or SIGINT.

    Raises:
        NotAllowed: other machines could reach it, and nobody could sign in.
        ServiceUnavailable: it cannot listen on the address.
    """
    if settings.log_format == "json":
        log_process(settings)
    # Before anything is opened, so that a signal ends what has only begun, and its resources are
    # closed.
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
            single_sign_on=single_sign_on(settings),
            in_use=EmbeddedRuntime(settings).touch,
        )
        await require_token_beyond_loopback(site, settings.api_host)
        api = build_app(site)
        metrics: MetricsOutlet = api.state.metrics
        async with metrics.sending():
            await serve(
                ApiAndPages(api=api, pages=build_pages(site, api)),
                host=settings.api_host,
                port=settings.api_port,
                stop=stop,
                on_ready=on_ready,
                hosts=(*settings.api_hosts, *_page_host(settings.page_url)),
                proxies=settings.api_proxies,
            )


def rules_of(settings: Settings) -> ApiRules:
    """The rules for callers in the settings."""
    return ApiRules(
        rate_per_minute=settings.api_rate_per_minute,
        body_bytes=settings.api_body_bytes,
        origins=settings.api_origins,
        public=frozenset(settings.api_public),
        separate_approver=settings.api_separate_approver,
        page_url=settings.page_url,
    )


def single_sign_on(settings: Settings) -> SingleSignOn | None:
    """The single sign-on of the settings, or None.

    Raises:
        InvalidInput: a setting is missing or wrong, or the libraries are not installed.
    """
    if settings.oidc_issuer is None:
        return None
    reference = settings.oidc_client_secret
    name = "PERDURE_OIDC_CLIENT_SECRET"
    secret = resolve_reference(name, reference.get_secret_value()).strip() if reference else ""
    missing = {
        "PERDURE_OIDC_CLIENT_ID": settings.oidc_client_id,
        name: secret,
        "PERDURE_OIDC_GROUPS": settings.oidc_groups,
    }
    if named := [name for name, value in missing.items() if not value]:
        raise InvalidInput(
            f"PERDURE_OIDC_ISSUER is set, but {' and '.join(named)} "
            f"{'lead' if len(named) > 1 else 'leads'} to nothing.",
            cure="Set all of them, or unset PERDURE_OIDC_ISSUER (docs/page.md, Single sign-on).",
        )
    page = settings.page_url or ""
    host = host_of_origin(page)
    if host is not None and not (page.startswith("https:") or is_loopback(host)):
        # Browsers tell nothing of where a request came from there, and keep back the strict cookie.
        raise InvalidInput(
            f"PERDURE_PAGE_URL: found {page!r}; allowed with PERDURE_OIDC_ISSUER: an "
            "https address, or http on loopback.",
            cure="Put a proxy with TLS before the page, and name its https address.",
        )
    try:
        from perdure.adapters.openid import OpenIdProvider
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"PERDURE_OIDC_ISSUER is set, but its libraries are not installed ({error}).",
            cure="Install them: pip install 'perdure[sso]'.",
        ) from error
    provider = OpenIdProvider(
        settings.oidc_issuer,
        client_id=str(settings.oidc_client_id),
        client_secret=secret,
        groups_claim=settings.oidc_groups_claim,
        scope=" ".join(settings.oidc_request),
    )
    return SingleSignOn(provider=provider, groups=settings.oidc_groups)


def _page_host(page_url: str | None) -> tuple[str, ...]:
    found = host_of_origin(page_url or "")
    return () if found is None else (found,)


def surroundings_of(settings: Settings) -> Surroundings:
    """The surroundings of submissions: the operator's defaults apply, and no files are read."""
    return Surroundings(
        folder=None,
        user_defaults=settings.home / DEFAULTS_FILE,
        default_model=default_model(access_from(settings)),
        rubric_problems=check_problems,
        model_notes=model_notes,
        settings=frozenset(Settings.model_fields),
    )
