"""Who may use `archqa serve` and `archqa fhir serve`: tokens, hosts and other sites."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.safety.local_servers import (
    JSON_TYPE,
    OBSERVATION,
    LocalServer,
    cookie_of,
    ended,
    refused,
    started,
    ward_record,
)

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

FORM_TYPE = "application/x-www-form-urlencoded"
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    runs = tmp_path_factory.mktemp("runs")
    with started("serve", str(runs), "--port", "0") as server:
        yield server


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    path = ward_record(tmp_path_factory.mktemp("record"))
    with started(
        "fhir", "serve", str(path), "--port", "0", "--writes", "apply"
    ) as server:
        yield server


@pytest.fixture(params=["pages", "record"])
def server(request: pytest.FixtureRequest) -> LocalServer:
    server = request.getfixturevalue(request.param)
    assert isinstance(server, LocalServer)
    return server


def target_of(server: LocalServer) -> str:
    """A page, or a resource, that holds text of the record."""
    return "/fhir/Patient/p1" if server.path.startswith("/fhir") else "/"


def write_of(server: LocalServer) -> tuple[str, dict[str, str], bytes]:
    """Target, headers and body of a request that changes something."""
    if server.path.startswith("/fhir"):
        return "/fhir/Observation", {"content-type": JSON_TYPE}, OBSERVATION
    return "/ask", {"content-type": FORM_TYPE}, b"question=Why&note=furosemide"


def test_the_printed_address_holds_a_random_token_even_on_loopback(
    pages: LocalServer, record: LocalServer
) -> None:
    assert pages.host == record.host == "127.0.0.1"
    assert len(pages.token) >= 32
    assert len(record.token) >= 32
    assert pages.token != record.token


def test_without_the_token_nothing_is_shown_and_the_refusal_says_how_to_get_in(
    server: LocalServer,
) -> None:
    wrong = {"authorization": "Bearer guess"}
    for headers in ({}, wrong, {"cookie": f"archqa_token_{server.port}=guess"}):
        answer = server.ask(target_of(server), headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in answer.text
        assert "?token=" in answer.text
        assert server.token not in answer.text
        assert "Stone" not in answer.text
    assert server.ask(f"{target_of(server)}?token=guess").status == 401


def test_the_token_is_taken_as_a_bearer(server: LocalServer) -> None:
    assert server.ask(target_of(server), server.bearer).status == 200
    scheme = {"authorization": f"bearer {server.token}"}
    assert server.ask(target_of(server), scheme).status == 200
    basic = {"authorization": f"Basic {server.token}"}
    assert server.ask(target_of(server), basic).status == 401


def test_a_browser_moves_the_token_from_the_address_to_a_cookie(
    server: LocalServer,
) -> None:
    target = target_of(server)
    login = server.ask(f"{target}?token={server.token}", NAVIGATION)
    assert login.status == 303
    assert login.headers["location"] == target
    assert "; HttpOnly; SameSite=Strict" in login.headers["set-cookie"]
    assert server.token not in login.headers["set-cookie"]
    assert login.headers["cache-control"] == "no-store"
    assert login.headers["referrer-policy"] in {"no-referrer", "same-origin"}
    assert server.ask(target, {"cookie": cookie_of(login)}).status == 200


def test_a_link_on_another_site_still_gets_in_with_the_token(
    server: LocalServer,
) -> None:
    """A strict cookie does not travel with a redirect that another site began."""
    target = target_of(server)
    headers = {**NAVIGATION, "sec-fetch-site": "cross-site"}
    login = server.ask(f"{target}?token={server.token}", headers)
    assert login.status == 200
    assert f'content="0;url={target}"' in login.text
    assert server.token not in login.text
    assert server.ask(target, {"cookie": cookie_of(login)}).status == 200


def test_two_servers_on_one_host_do_not_log_each_other_out(
    pages: LocalServer, record: LocalServer
) -> None:
    jar = {}
    for server in (pages, record):
        login = server.ask(f"{target_of(server)}?token={server.token}", NAVIGATION)
        name, _, value = cookie_of(login).partition("=")
        jar[name] = value
    cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
    for server in (pages, record):
        headers = {"cookie": f"odd cookie[]; {cookies}; another={{}}"}
        assert server.ask(target_of(server), headers).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost.evil.example",
        "localhost@evil.example:{port}", "evil.example@localhost", "0.0.0.0:{port}", "192.0.2.7:{port}",
        "[fe80::1]:{port}", "", "localhost:{port}:1", "local host", "localhost/x", "127.0.0.1:99999999",
    ],
)  # fmt: skip
def test_a_host_that_is_not_this_machine_is_refused_even_with_the_token(
    server: LocalServer, host: str
) -> None:
    headers = {"Host": host.format(port=server.port), **server.bearer}
    answer = server.ask(target_of(server), headers)
    assert answer.status in {400, 421}
    assert "Stone" not in answer.text


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9", "localhost", "LOCALHOST:{port}", "localhost.:{port}",
     "[::1]:{port}", "[::1]", "127.1.2.3:{port}"],
)  # fmt: skip
def test_every_spelling_of_this_machine_is_answered(
    server: LocalServer, host: str
) -> None:
    headers = {"Host": host.format(port=server.port), **server.bearer}
    assert server.ask(target_of(server), headers).status == 200


def test_several_hosts_or_none_are_refused(server: LocalServer) -> None:
    bearer = ("authorization", f"Bearer {server.token}")
    hosts = [("Host", "127.0.0.1"), ("Host", "evil.example"), bearer]
    assert server.ask(target_of(server), hosts).status == 400
    assert (
        server.ask(target_of(server), [("Host", "127.0.0.1")] * 2 + [bearer]).status
        == 400
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:{port}"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
    ],
)  # fmt: skip
def test_requests_of_another_site_are_refused_even_with_the_token(
    server: LocalServer, headers: dict[str, str]
) -> None:
    site = {name: value.format(port=server.port) for name, value in headers.items()}
    reading = server.ask(target_of(server), {**site, **server.bearer})
    assert reading.status == 403
    assert "Stone" not in reading.text
    target, content_type, body = write_of(server)
    writing = server.ask(
        target, {**site, **content_type, **server.bearer}, method="POST", body=body
    )
    assert writing.status == 403


def test_a_page_in_a_frame_of_another_site_is_refused(server: LocalServer) -> None:
    frame = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}
    for destination in ("iframe", "frame", "embed", "object"):
        headers = {**frame, "sec-fetch-dest": destination, **server.bearer}
        assert server.ask(target_of(server), headers).status == 403


def test_requests_of_the_own_site_and_typed_addresses_are_answered(
    server: LocalServer,
) -> None:
    own = {"origin": server.address, "sec-fetch-site": "same-origin"}
    assert server.ask(target_of(server), {**own, **server.bearer}).status == 200
    typed = {**NAVIGATION, "sec-fetch-site": "none"}
    assert server.ask(target_of(server), {**typed, **server.bearer}).status == 200


def test_preflights_of_another_site_allow_nothing(server: LocalServer) -> None:
    preflight = {
        "origin": "http://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
        "access-control-request-private-network": "true",
    }
    for headers in (preflight, {**preflight, **server.bearer}):
        answer = server.ask(write_of(server)[0], headers, method="OPTIONS")
        assert answer.status >= 400
        assert not [
            name for name in answer.headers if name.startswith("access-control")
        ]


def test_a_token_in_the_address_of_a_form_is_not_taken(server: LocalServer) -> None:
    target, headers, body = write_of(server)
    answer = server.ask(
        f"{target}?token={server.token}", headers, method="POST", body=body
    )
    assert answer.status == 401


@pytest.mark.parametrize("command", ["serve", "fhir serve"])
def test_the_token_is_in_no_log_and_ctrl_c_ends_a_server_without_an_error(
    tmp_path: Path, command: str
) -> None:
    source = ward_record(tmp_path) if command == "fhir serve" else tmp_path
    with started(*command.split(), str(source), "--port", "0") as server:
        target = target_of(server)
        server.ask(f"{target}?token={server.token}", NAVIGATION)
        server.ask(f"{target}?token={server.token}&nonsense=%ff")
        server.ask(f"/none?token={server.token}", server.bearer)
        code, stdout, stderr = ended(server)
    assert code == 0
    assert server.token not in stdout + stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", ["serve", "fhir serve"])
def test_no_token_says_what_it_means_and_keeps_the_checks_of_host_and_origin(
    tmp_path: Path, command: str
) -> None:
    source = ward_record(tmp_path) if command == "fhir serve" else tmp_path
    with started(*command.split(), str(source), "--port", "0", "--no-token") as server:
        target = target_of(server)
        assert "token" not in server.printed_url
        assert server.ask(target).status == 200
        assert server.ask(target, {"Host": "evil.example"}).status == 421
        assert server.ask(target, {"origin": "http://evil.example"}).status == 403
        _, _, stderr = ended(server)
    assert "every program and every user of this machine can read" in stderr
    assert "and ask and write what the server allows" in stderr


@pytest.mark.parametrize("command", ["serve", "fhir serve"])
def test_no_token_is_refused_where_others_can_reach_the_server(
    tmp_path: Path, command: str
) -> None:
    source = ward_record(tmp_path) if command == "fhir serve" else tmp_path
    process = refused(
        *command.split(), str(source), "--port", "0", "--host", "0.0.0.0", "--no-token"
    )
    assert process.returncode == 2
    assert "--no-token" in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize("command", ["serve", "fhir serve"])
def test_help_says_what_no_token_means(command: str) -> None:
    process = refused(*command.split(), "--help", environment={"COLUMNS": "200"})
    assert re.search(r"--no-token\s+.*every program and every user", process.stdout)


def test_a_server_that_others_can_reach_is_protected_by_its_token(
    tmp_path: Path,
) -> None:
    with started("serve", str(tmp_path), "--port", "0", "--host", "0.0.0.0") as server:
        other_name = {"Host": f"ward.example:{server.port}"}
        assert server.ask("/", other_name).status == 401
        assert server.ask("/", {**other_name, **server.bearer}).status == 200
        evil = {"origin": "http://evil.example"}
        assert server.ask("/", {**other_name, **server.bearer, **evil}).status == 403
