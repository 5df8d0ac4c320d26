"""Pages of other sites: none may read the server, except those of named origins with a token."""

import pytest
from typer.testing import CliRunner

from archqa.cli.fhir import app
from archqa.errors import CallerError
from archqa.fhir import FhirService, Store
from archqa.fhir.server.application import FhirApplication
from archqa.safety.local_server import check_origin
from tests.fhir.serving import BASE, ask

SITE = "https://app.example.org"
ASKS = [
    ("access-control-request-method", "GET"),
    ("access-control-request-headers", "authorization"),
]
TOKEN = ("authorization", "Bearer secret")


@pytest.fixture
def application(ward_store: Store) -> FhirApplication:
    service = FhirService(ward_store, BASE)
    return FhirApplication(service, token="secret", on_loopback=True, cors=[SITE])


async def test_a_preflight_of_a_named_origin_is_answered_without_a_token(
    application: FhirApplication,
) -> None:
    headers = [("origin", SITE), ("sec-fetch-site", "cross-site"), *ASKS]
    reply = await ask(application, "OPTIONS", "/fhir/Patient", headers=headers)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == SITE
    assert "Authorization" in reply.headers["access-control-allow-headers"]
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.org",
        "http://app.example.org",
        f"{SITE}:444",
        f"{SITE}.evil",
        "null",
    ],
)
async def test_no_other_origin_is_answered(
    application: FhirApplication, origin: str
) -> None:
    preflight = [("origin", origin), *ASKS]
    for method, headers in (
        ("OPTIONS", preflight),
        ("GET", [("origin", origin), TOKEN]),
    ):
        reply = await ask(application, method, "/fhir/Patient", headers=headers)
        assert reply.status == 403
        assert "access-control-allow-origin" not in reply.headers
        assert "Origin" in reply.headers["vary"]


async def test_a_page_of_a_named_origin_reads_with_the_token_alone(
    application: FhirApplication,
) -> None:
    login = await ask(application, "GET", "/fhir/Patient?token=secret")
    cookie = ("cookie", login.headers["set-cookie"].partition(";")[0])
    assert (
        await ask(application, "GET", "/fhir/Patient", headers=[cookie])
    ).status == 200
    page = [("origin", SITE), ("sec-fetch-site", "cross-site")]
    for headers, status in (([TOKEN], 200), ([cookie], 401), ([], 401)):
        reply = await ask(
            application, "GET", "/fhir/Patient", headers=[*page, *headers]
        )
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == SITE
    for name in ("Location", "ETag", "Link", "Warning"):
        assert name in reply.headers["access-control-expose-headers"]


async def test_a_rebound_name_is_not_answered_even_for_a_named_origin(
    application: FhirApplication,
) -> None:
    headers = [("origin", SITE), ("host", "evil.example.org"), *ASKS]
    reply = await ask(application, "OPTIONS", "/fhir/Patient", headers=headers)
    assert reply.status == 421


async def test_by_default_no_page_of_another_site_is_answered(
    ward_store: Store,
) -> None:
    application = FhirApplication(FhirService(ward_store, BASE))
    reply = await ask(
        application, "OPTIONS", "/fhir/Patient", headers=[("origin", SITE), *ASKS]
    )
    assert reply.status == 403
    plain = await ask(application, "GET", "/fhir/Patient")
    assert not [name for name in plain.headers if name.startswith("access-control")]


def test_an_origin_is_exact() -> None:
    assert check_origin(" HTTPS://App.example.org:443 ") == SITE
    assert check_origin("http://localhost:3000") == "http://localhost:3000"
    for text in (
        "*",
        "null",
        "app.example.org",
        f"{SITE}/",
        f"{SITE}/x",
        "https://*.example.org",
    ):
        with pytest.raises(CallerError, match="origin"):
            check_origin(text)


def test_the_command_refuses_a_wildcard(ward_store: Store) -> None:
    arguments = ["serve", str(ward_store.path), "--cors", "*"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, CallerError) or "origin" in result.output
