"""A server's bulk export becomes a record, over real HTTP on loopback, also when it is interrupted."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import (
    AuthenticationFailed,
    CallerError,
    Redirected,
    ServerUnavailable,
)
from archqa.fhir import (
    ExportOrder,
    ExportServer,
    FhirError,
    ImportProgress,
    ImportReport,
    Store,
    import_export,
    state_folder,
)
from archqa.fhir.client.smart import FixedToken
from archqa.safety.files import NotPrivate
from tests.cli.test_commands import archqa
from tests.fakes.bulk_server import TOKEN, TRANSACTION_TIME, BulkServer
from tests.fhir.invented import build_store, numbered_observations, patient
from tests.fhir.test_dumping import texts_by_type
from tests.fhir.test_fhir_commands import run
from tests.safety.raw_server import RawServer, Request, Response

ACCESS = FixedToken(TOKEN)


def fetch(
    base: str, into: Path, order: ExportOrder | None = None, **options: Any
) -> ImportReport:
    """Export from a server without pauses; `allowed_hosts` and `access` are the server's."""
    access = options.pop("access", ACCESS)
    hosts = options.pop("allowed_hosts", ())
    server = ExportServer(base, access=access, allowed_hosts=hosts)
    options.setdefault("sleep", lambda _: None)
    try:
        return import_export(server, order or ExportOrder(base=base), into, **options)
    finally:
        server.close()


@pytest.fixture
def many(tmp_path: Path) -> Store:
    """More than a block of the network, with text that is not ASCII."""
    note = [{"text": "Grüße, 体温 " + "x" * 900}]
    resources = [patient("p1"), *numbered_observations(1500, note=note), patient("p2")]
    return build_store(tmp_path / "many", resources)


def exporting(record: Store, port: int = 0) -> BulkServer:
    """A server that exports a record."""
    texts = {
        name: [text for _, text in rows] for name, rows in texts_by_type(record).items()
    }
    return BulkServer(texts, port)


def test_a_record_that_is_exported_over_http_is_equal(
    many: Store, tmp_path: Path
) -> None:
    with exporting(many) as server:
        base = server.base
        report = fetch(base, tmp_path / "copy.db")
        assert report.transaction_time == TRANSACTION_TIME
        assert report.load.added == 1502
        assert report.load.bad == report.failures == 0
        with Store.open(tmp_path / "copy.db") as copy:
            assert texts_by_type(copy) == texts_by_type(many)
        again = fetch(base, tmp_path / "copy.db")
        assert again.load.unchanged == 1502
        newer = ExportOrder(
            base=base, since=report.transaction_time, types=("Patient",)
        )
        assert fetch(base, tmp_path / "copy.db", newer).load.by_type == {}
    assert not state_folder(tmp_path / "copy.db").exists()


@pytest.mark.parametrize("server_ends_too", [False, True])
def test_an_interrupted_export_goes_on_where_it_ended(
    many: Store, tmp_path: Path, server_ends_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a server that was started anew and still has the export."""
    target = tmp_path / "copy.db"
    asked: list[tuple[str, str]] = []
    open_file = ExportServer.open_file

    def watch(self: ExportServer, url: str, headers: Any, **options: Any) -> Any:
        asked.append((url.rpartition("/")[2], headers.get("range", "")))
        return open_file(self, url, headers, **options)

    monkeypatch.setattr(ExportServer, "open_file", watch)

    def stop_within_a_file(progress: ImportProgress) -> None:
        part = state_folder(target) / "0001-Observation.ndjson.part"
        if part.exists() and part.stat().st_size > 300_000:
            raise KeyboardInterrupt

    with exporting(many) as server:
        with pytest.raises(KeyboardInterrupt):
            fetch(server.base, target, progress=stop_within_a_file)
        assert not target.exists()
        size = (state_folder(target) / "0001-Observation.ndjson.part").stat().st_size
        assert 300_000 < size < 1_500_000
        if not server_ends_too:
            fetch(server.base, target)
    if server_ends_too:
        with exporting(many, server.port) as same:
            assert same.base == server.base
            fetch(same.base, target)
    with Store.open(target) as copy:
        assert texts_by_type(copy) == texts_by_type(many)
    assert asked == [
        ("Observation.ndjson", ""),
        ("Observation.ndjson", f"bytes={size}-"),
        ("Patient.ndjson", ""),
    ]


def test_another_order_does_not_go_on_with_what_is_there(
    many: Store, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"

    def stop(progress: ImportProgress) -> None:
        if "file" in progress.step:
            raise KeyboardInterrupt

    with exporting(many) as server:
        with pytest.raises(KeyboardInterrupt):
            fetch(server.base, target, progress=stop)
        patients = ExportOrder(base=server.base, types=("Patient",))
        with pytest.raises(CallerError, match="--restart"):
            fetch(server.base, target, patients)
        assert fetch(server.base, target, patients, restart=True).load.added == 2
    assert not state_folder(target).exists()


def test_the_command_exports_and_indexes(
    many: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHQA_FHIR_TOKEN", TOKEN)
    monkeypatch.setattr("time.sleep", lambda _: None)
    target = tmp_path / "copy.db"
    with exporting(many) as server:
        base = server.base
        result = run(
            "export", base, "--into", str(target), "--type", "Patient", "--quiet"
        )
        assert "2 added" in result.stdout
        assert "--since 20" in result.stdout
        report = json.loads(run("export", base, "--into", str(target), "--json").stdout)
        assert report["load"]["added"] == 1500
        for words in (["--group", "a/b"], ["--group", "g", "--patients"]):
            with pytest.raises(CallerError):
                run("export", base, "--into", str(target), *words)
        with pytest.raises(FhirError, match="no Group"):
            run("export", base, "--into", str(target), "--group", "g")
    with pytest.raises(CallerError, match="archqa fhir export"):
        run("load", base, "--into", str(target))
    with pytest.raises(CallerError, match="archqa fhir load"):
        run("export", "dump", "--into", str(target))


# Servers with odd replies.

LINES = [json.dumps(patient(f"p{number}")) for number in range(400)]
CONTENT = "".join(f"{line}\n" for line in LINES).encode()


class OddServer:
    """A bulk server whose replies a test may replace, by path."""

    def __init__(self) -> None:
        self.replies: dict[str, Callable[[Request], Response]] = {
            "/fhir/$export": lambda _: Response(
                202,
                [b""],
                (("Content-Location", "/fhir/status"), ("Content-Length", "0")),
            ),
            "/fhir/status": self.manifest,
            "/files/1": lambda _: whole(CONTENT),
        }
        self.output = [{"type": "Patient", "url": "/files/1", "count": 400}]
        self.more: dict[str, Any] = {}
        self.server = RawServer(self.answer)

    def answer(self, request: Request) -> Response:
        return self.replies[request.target](request)

    def manifest(self, request: Request) -> Response:
        manifest = {
            "transactionTime": "2030-01-01T00:00:00Z",
            "request": "x",
            "requiresAccessToken": True,
            "output": self.output,
            "error": [],
            **self.more,
        }
        return whole(json.dumps(manifest).encode())

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.server.requests if request.target == path]


def whole(content: bytes, status: int = 200, *headers: tuple[str, str]) -> Response:
    return Response(
        status, [content], (("Content-Length", str(len(content))), *headers)
    )


@pytest.fixture
def odd() -> Iterator[OddServer]:
    odd = OddServer()
    with odd.server:
        yield odd


@pytest.fixture
def base(odd: OddServer) -> str:
    return f"{odd.server.url}/fhir"


def test_a_server_is_waited_for_as_long_as_it_says(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    statuses = iter(
        [
            whole(b"", 202, ("X-Progress", "10%"), ("Retry-After", "7")),
            whole(b"", 202),
            whole(b"", 202),
            whole(b"", 503, ("Retry-After", "40")),
            whole(b'{"issue": [{"code": "throttled"}]}', 500),
        ]
    )
    odd.replies["/fhir/status"] = lambda request: (
        next(statuses, None) or odd.manifest(request)
    )
    pauses: list[float] = []
    steps: list[str] = []
    report = fetch(
        base,
        tmp_path / "a.db",
        sleep=pauses.append,
        progress=lambda progress: steps.append(progress.step),
    )
    assert report.load.added == 400
    assert pauses == [7, 2, 4, 40, 2]
    assert "the server exports 10%" in steps


def test_an_export_that_failed_is_an_error_at_once(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    outcome = {"issue": [{"code": "exception", "diagnostics": "It failed."}]}
    odd.replies["/fhir/status"] = lambda _: whole(json.dumps(outcome).encode(), 500)
    with pytest.raises(FhirError, match="It failed"):
        fetch(base, tmp_path / "a.db")


@pytest.mark.parametrize(
    "ranges", ["by tag", "without a tag", "none", "another part", "shorter"]
)
def test_a_file_that_breaks_off_is_made_whole(
    odd: OddServer, base: str, tmp_path: Path, ranges: str
) -> None:
    """By a range where the server has them, else from its beginning."""
    tag = (("ETag", '"v1"'),) if ranges == "by tag" else ()
    breaks = iter([9000, 5000])
    ranges_asked: list[str] = []

    def answer(request: Request) -> Response:
        asked = request.headers.get("range", "")
        ranges_asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-") or 0)
        if ranges == "shorter" and asked:
            return whole(b"", 416, ("Content-Range", "bytes */5"))
        if ranges == "none":
            start = 0
        if ranges == "another part" and start:
            start = 3
        rest = CONTENT[start:]
        sent = rest[: next(breaks, len(rest))]
        length = ("Content-Length", str(len(rest)))
        if start == 0:
            return Response(200, [sent], (length, *tag))
        if ranges == "by tag":
            assert request.headers["if-range"] == '"v1"'
        part = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        return Response(206, [sent], (length, ("Content-Range", part)))

    odd.replies["/files/1"] = answer
    assert fetch(base, tmp_path / "a.db").load.added == 400
    assert ranges_asked[:2] == ["", "bytes=9000-"]
    if ranges in {"by tag", "without a tag"}:
        assert ranges_asked == ["", "bytes=9000-", "bytes=14000-"]


def test_attempts_that_get_further_are_not_counted(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    def answer(request: Request) -> Response:
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        rest = CONTENT[start:]
        length = ("Content-Length", str(len(rest)))
        part = ("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        return Response(206 if start else 200, [rest[:3000]], (length, part))

    odd.replies["/files/1"] = answer
    pauses: list[float] = []
    assert fetch(base, tmp_path / "a.db", sleep=pauses.append).load.added == 400
    assert len(pauses) > 15
    assert set(pauses) == {1}


def test_a_server_that_sends_another_number_than_it_says_gives_no_record(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    odd.output[0]["count"] = 401
    with pytest.raises(FhirError, match="counts 401 resources and sent 400"):
        fetch(base, tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()
    odd.replies["/files/1"] = lambda _: whole(
        CONTENT + b'{"resourceType": "Patient", "id": "x"}\n\n'
    )
    assert fetch(base, tmp_path / "a.db").load.added == 401


def test_files_on_another_host_need_leave_and_never_get_the_token(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    with RawServer(lambda _: whole(CONTENT)) as storage:
        odd.output[0]["url"] = f"{storage.url}/signed?key=secret"
        with pytest.raises(FhirError, match="another host") as refusal:
            fetch(base, tmp_path / "a.db")
        assert f"--allow-host 127.0.0.1:{storage.port}" in str(refusal.value)
        assert "secret" not in str(refusal.value)
        assert storage.requests == []
        hosts = [f"127.0.0.1:{storage.port}"]
        assert fetch(base, tmp_path / "a.db", allowed_hosts=hosts).load.added == 400
        (request,) = storage.requests
        assert "authorization" not in request.headers
    assert odd.asked("/fhir/status")[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("needed", [True, False])
def test_files_get_the_token_only_where_the_manifest_says_so(
    odd: OddServer, base: str, tmp_path: Path, needed: bool
) -> None:
    odd.more["requiresAccessToken"] = needed
    fetch(base, tmp_path / "a.db")
    (request,) = odd.asked("/files/1")
    assert ("authorization" in request.headers) is needed


def test_a_status_on_another_host_gets_nothing(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    with RawServer(odd.manifest) as elsewhere:
        location = f"{elsewhere.url}/status"
        odd.replies["/fhir/$export"] = lambda _: whole(
            b"", 202, ("Content-Location", location)
        )
        with pytest.raises(FhirError, match="another host"):
            fetch(base, tmp_path / "a.db")
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "url",
    ["http://[", "ftp://127.0.0.1/x", "http://me:pw@127.0.0.1/x", "file:///etc/passwd"],
)
def test_an_address_that_is_none_is_an_error(
    odd: OddServer, base: str, tmp_path: Path, url: str
) -> None:
    odd.output[0]["url"] = url
    with pytest.raises(FhirError):
        fetch(base, tmp_path / "a.db")


def test_plain_http_to_an_allowed_host_across_the_network_is_refused(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    odd.output[0]["url"] = "http://storage.example/1"
    with pytest.raises(CallerError, match="Plain http"):
        fetch(base, tmp_path / "a.db", allowed_hosts=["storage.example"])


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{}", b'{"output": 1, "transactionTime": "x"}', b"[" * 100_000,
     b'{"output": [{"type": "../x", "url": "/files/1"}], "transactionTime": "x"}',
     b'{"output": [], "transactionTime": "x", "link": [{"relation": "next", "url": "y"}]}'],
)  # fmt: skip
def test_a_manifest_that_is_none_is_an_error(
    odd: OddServer, base: str, tmp_path: Path, manifest: bytes
) -> None:
    odd.replies["/fhir/status"] = lambda _: whole(manifest)
    with pytest.raises(FhirError):
        fetch(base, tmp_path / "a.db")


def test_the_servers_own_errors_and_deletions_are_told(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    issues = [
        {
            "severity": "error",
            "code": "processing",
            "diagnostics": "One Patient is left out.",
        },
        {"severity": "information", "details": {"text": "Old data."}},
    ]
    outcome = json.dumps({"resourceType": "OperationOutcome", "issue": issues}).encode()
    odd.replies["/files/2"] = lambda _: whole(outcome + b"\n")
    odd.more["error"] = [{"type": "OperationOutcome", "url": "/files/2"}]
    odd.more["deleted"] = [{"type": "Bundle", "url": "/files/3"}]
    report = fetch(base, tmp_path / "a.db")
    assert report.failures == 1
    assert report.issues == (
        "the server's error: One Patient is left out.",
        "the server's information: Old data.",
    )
    assert report.deleted == 1
    result = run("export", base, "--into", str(tmp_path / "a.db"), "--quiet")
    assert result.exit_code == 1
    assert "One Patient is left out" in result.output


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, AuthenticationFailed), (403, AuthenticationFailed), (404, FhirError),
     (302, Redirected), (501, FhirError), (503, ServerUnavailable)],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/fhir/$export", "/files/1"])
def test_a_refusal_is_one_clear_error(
    odd: OddServer,
    base: str,
    tmp_path: Path,
    status: int,
    error: type[Exception],
    path: str,
) -> None:
    location = ("Location", "http://127.0.0.1:1/elsewhere")
    odd.replies[path] = lambda _: whole(b"", status, location)
    with pytest.raises(error):
        fetch(base, tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()


def test_a_server_that_answers_at_once_has_no_bulk_exports(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    odd.replies["/fhir/$export"] = lambda _: whole(b"{}")
    with pytest.raises(FhirError, match="not answer as bulk exports"):
        fetch(base, tmp_path / "a.db")


def test_what_is_fetched_is_private_and_in_the_end_removed_on_both_sides(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    modes: dict[str, int] = {}

    def look(_: ImportProgress) -> None:
        folder = state_folder(tmp_path / "a.db")
        for path in [folder, *folder.iterdir()]:
            modes[path.name] = path.stat().st_mode & 0o777

    fetch(base, tmp_path / "a.db", progress=look)
    assert modes.pop(".a.db.export") == 0o700
    assert set(modes) >= {"state.json", "0001-Patient.ndjson"}
    assert set(modes.values()) == {0o600}
    assert odd.server.requests[-1].method == "DELETE"
    assert odd.server.requests[-1].target == "/fhir/status"


def test_a_bundle_among_the_resources_stays_one(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    document = {"resourceType": "Bundle", "id": "b", "type": "document"}
    document["entry"] = [{"resource": patient("inner")}]  # type: ignore[assignment]
    odd.output = [{"type": "Bundle", "url": "/files/1"}]
    odd.replies["/files/1"] = lambda _: whole(json.dumps(document).encode())
    assert fetch(base, tmp_path / "a.db").load.by_type == {"Bundle": 1}


def test_two_commands_do_not_fetch_the_same_at_once(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    def begin_another(_: ImportProgress) -> None:
        fetch(base, tmp_path / "a.db")

    with pytest.raises(CallerError, match="Another command"):
        fetch(base, tmp_path / "a.db", progress=begin_another)


def test_error_files_of_another_shape_are_counted(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    lines = [
        "[" * 100_000,
        json.dumps({"issue": [{"severity": "error", "diagnostics": "x" * 5000}]}),
        json.dumps({"issue": [{"severity": "warning", "diagnostics": "\ud800"}, 7]}),
        '{"issue": 7}',
        '{"issue": [{"severity": %s}]}' % ("1" * 5000),
    ]
    content = "\n".join(lines).encode()
    odd.replies["/files/2"] = lambda _: whole(content)
    odd.more["error"] = [{"type": "OperationOutcome", "url": "/files/2"}]
    report = fetch(base, tmp_path / "a.db")
    assert report.failures == 4
    assert len(report.issues) == 5
    assert all(len(issue) <= 600 for issue in report.issues)
    assert "\ud800" not in "".join(report.issues)


# What somebody else put where an export keeps what it fetched.


def plant(folder: Path, base: str) -> Path:
    """A state folder as an interrupted export leaves it: private, with one whole file."""
    folder.mkdir(mode=0o700)
    state = {
        "order": {"base": base},
        "status_url": f"{base}/status",
        "manifest": {
            "transaction_time": "2030-01-01T00:00:00Z",
            "requires_token": True,
            "files": [{"type": "Patient", "url": f"{base}/files/1"}],
        },
    }
    for name, text in (
        ("state.json", json.dumps(state)),
        ("0001-Patient.ndjson", json.dumps(patient("foreign"))),
    ):
        path = folder / name
        path.write_text(text)
        path.chmod(0o600)
    return folder


def link_to_state(folder: Path, elsewhere: Path) -> None:
    folder.rename(elsewhere / "state")
    folder.symlink_to(elsewhere / "state")


def link_to_file(folder: Path, elsewhere: Path) -> None:
    path = folder / "0001-Patient.ndjson"
    path.rename(elsewhere / "file")
    path.symlink_to(elsewhere / "file")


def link_for_the_part(folder: Path, elsewhere: Path) -> None:
    (folder / "0001-Patient.ndjson").unlink()
    (elsewhere / "part").write_text("")
    (folder / "0001-Patient.ndjson.part").symlink_to(elsewhere / "part")


def hard_link(folder: Path, elsewhere: Path) -> None:
    (elsewhere / "hard").hardlink_to(folder / "0001-Patient.ndjson")


def dangling_lock(folder: Path, elsewhere: Path) -> None:
    (folder / "lock").symlink_to(elsewhere / "made")


def open_folder(folder: Path, _: Path) -> None:
    folder.chmod(0o755)


def open_state(folder: Path, _: Path) -> None:
    (folder / "state.json").chmod(0o644)


def pipe(folder: Path, _: Path) -> None:
    os.mkfifo(folder / "0001-Patient.ndjson.part", 0o600)


@pytest.mark.parametrize(
    "change",
    [link_to_state, link_to_file, link_for_the_part, hard_link, dangling_lock,
     open_folder, open_state, pipe],
)  # fmt: skip
@pytest.mark.parametrize("restart", [[], ["--restart"]])
def test_a_planted_state_is_refused_and_nothing_is_written_elsewhere(
    odd: OddServer,
    base: str,
    tmp_path: Path,
    change: Callable[[Path, Path], None],
    restart: list[str],
) -> None:
    target, elsewhere = tmp_path / "a.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    change(plant(state_folder(target), base), elsewhere)
    before = {path.name: path.stat().st_size for path in elsewhere.iterdir()}
    result = archqa("fhir", "export", base, "--into", str(target), *restart)
    assert result.returncode == 2
    assert "goes on with it" not in result.stderr
    assert "somebody else may have put it there" in result.stderr
    assert f"Remove {state_folder(target)}" in result.stderr
    assert not target.exists()
    assert odd.server.requests == []
    after = {path.name: path.stat().st_size for path in elsewhere.iterdir()}
    assert after == before


@pytest.mark.skipif(os.name != "posix", reason="files have no owners")
def test_a_state_of_another_user_is_refused(
    odd: OddServer, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(state_folder(tmp_path / "a.db"), base)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(NotPrivate):
        fetch(base, tmp_path / "a.db")
    assert odd.server.requests == []


def test_a_state_of_the_same_user_goes_on(
    odd: OddServer, base: str, tmp_path: Path
) -> None:
    plant(state_folder(tmp_path / "a.db"), base)
    report = fetch(base, tmp_path / "a.db")
    assert report.load.by_type == {"Patient": 1}
