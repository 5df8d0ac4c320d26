"""A reply without end is read up to a limit of unpacked bytes, and is not asked for again."""

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from archqa.errors import ArchqaError, ServerUnavailable
from archqa.fhir import FhirClient
from archqa.fhir.client.smart import ClientCredentials
from archqa.llm.server import ModelServer
from tests.cli.test_commands import ROOT, archqa
from tests.safety.raw_server import MIB, Answer, RawServer, Response, endless

READ_AHEAD = 16 * MIB
"""What the sockets' buffers may take beyond what was read: 9.2 MiB were seen on a busy machine."""


def bomb(*encodings: str) -> Answer:
    """256 MiB of blanks, packed once for each coding."""
    packer = zlib.compressobj(1, wbits=31)
    body = b"".join(packer.compress(b" " * MIB) for _ in range(256)) + packer.flush()
    for _ in encodings[1:]:
        body = gzip.compress(body, 1)
    header = ("content-encoding", ", ".join(encodings))
    return lambda _: Response(parts=(body,), headers=(header,))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture(scope="module")
def gzip_bomb() -> Answer:
    return bomb("gzip")


def predict_words(url: str, folder: Path) -> list[str]:
    words = [
        "predict",
        "mini",
        "--base-url",
        f"{url}/v1",
        "--model",
        "m",
        "--limit",
        "1",
    ]
    return [*words, "--quiet", "--jobs", "1", "--out", str(folder / "run")]


def test_a_models_reply_without_end_is_read_up_to_16_mib_and_not_asked_for_again(
    tmp_path: Path,
) -> None:
    with RawServer(endless) as server:
        result = archqa(*predict_words(server.url, tmp_path))
    assert result.returncode == 4
    assert "is too long (over 16 MiB)" in result.stderr
    targets = [request.body for request in server.requests]
    assert len(targets) == len(set(targets)), "no request is sent twice"
    assert server.sent < len(targets) * (16 * MIB + READ_AHEAD)


@pytest.mark.parametrize(
    ("encodings", "problem"),
    [(("gzip",), "too long"), (("gzip", "gzip"), "not asked for")],
)
async def test_a_models_compressed_reply_is_measured_as_it_unpacks(
    encodings: tuple[str, ...], problem: str
) -> None:
    with RawServer(bomb(*encodings)) as server:
        async with ModelServer(server.url, "key") as model_server:
            tracemalloc.start()
            with pytest.raises(ServerUnavailable, match=problem):
                await model_server.chat({"model": "m", "messages": []})
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert peak < 60 * MIB


def test_a_compressed_reply_is_read(tmp_path: Path) -> None:
    text = b'{"data": [{"id": "packed-7b"}]}'
    header = (("content-encoding", "gzip"),)
    with RawServer(
        lambda _: Response(parts=(gzip.compress(text),), headers=header)
    ) as server:
        result = archqa("list", "models", ARCHQA_BASE_URL=f"{server.url}/v1")
    assert "packed-7b" in result.stdout


def test_half_of_a_compressed_reply_is_no_reply() -> None:
    text = gzip.compress(b'{"resourceType": "Bundle", "total": 7}')
    half = text[: len(text) // 2]
    header = (("content-encoding", "gzip"),)
    with RawServer(lambda _: Response(parts=(half,), headers=header)) as server:
        result = archqa("fhir", "search", "Patient", "--record", f"{server.url}/fhir")
    assert result.returncode != 0
    assert "is cut off" in result.stderr


@pytest.mark.parametrize("packed", [False, True])
async def test_lists_of_models_and_batches_are_read_up_to_16_mib(
    packed: bool, gzip_bomb: Answer
) -> None:
    with RawServer(gzip_bomb if packed else endless) as server:
        async with ModelServer(server.url, "key") as api:
            with pytest.raises(ServerUnavailable, match="too long"):
                await api.models()
            with pytest.raises(ArchqaError, match="too long"):
                await api.batch("b1")
    assert server.sent < 2 * (16 * MIB + READ_AHEAD)


@pytest.mark.parametrize("packed", [False, True])
async def test_results_of_a_batch_go_to_the_disk_up_to_a_limit(
    packed: bool, gzip_bomb: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.llm.server.MAX_FILE_BYTES", 20 * MIB)
    with RawServer(gzip_bomb if packed else endless) as server:
        async with ModelServer(server.url, "key") as api:
            with pytest.raises(ArchqaError, match="too long"):
                await api.save_file("f1", tmp_path / "results.jsonl")
    assert not names_in(tmp_path), "half a file is not kept"


def test_a_token_services_reply_is_read_up_to_a_mib(gzip_bomb: Answer) -> None:
    def answer_of(reply: Answer) -> Answer:
        return lambda request: reply(request)

    for reply in (endless, gzip_bomb):
        with RawServer(answer_of(reply)) as server:
            for token_url in (None, f"{server.url}/token"):
                token = ClientCredentials("me", "secret", token_url=token_url)
                with (
                    FhirClient(f"{server.url}/fhir", token=token) as client,
                    pytest.raises(ServerUnavailable),
                ):
                    client.search("Patient")
        assert server.sent < 2 * (MIB + READ_AHEAD)


def test_a_records_compressed_reply_is_measured_as_it_unpacks(
    gzip_bomb: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.fhir.client.http_client.MAX_REPLY_BYTES", 20 * MIB)
    with RawServer(gzip_bomb) as server:
        result = archqa("fhir", "search", "Patient", "--record", f"{server.url}/fhir")
    assert result.returncode != 0
    assert "too long (over 20 MiB)" in result.stderr
    assert len(server.requests) == 1


def limited_archqa(*words: str, mib: int) -> subprocess.CompletedProcess[str]:
    """The command in a process that may have so much address space."""
    code = (
        "import resource, sys; from archqa.cli.main import run; import archqa.fhir.store;"
        "import archqa.fhir.index.loading;"
        f"resource.setrlimit(resource.RLIMIT_AS, ({mib * MIB},) * 2); run()"
    )
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)


PATIENT = b'{"resourceType": "Patient", "id": "p1"}'


def test_a_line_of_a_gzip_that_never_ends_is_read_up_to_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "bomb.ndjson.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(PATIENT + b"\n")
        for _ in range(40):
            file.write(b"\0" * 4 * MIB)
    words = ["fhir", "load", str(path), "--into", str(tmp_path / "record.db"), "--json"]
    result = limited_archqa(*words, mib=700)
    assert result.returncode == 1, result.stderr
    assert ":2: is longer than 64 MiB" in result.stderr
    assert "what comes after it was not read" in result.stderr
    assert '"added": 1' in result.stdout


def test_a_bundle_in_a_gzip_that_never_ends_is_read_up_to_64_mib(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"resourceType": "Bundle", "entry": [\n')
        for _ in range(40):
            file.write(b"   \n" * MIB)
    words = ["fhir", "load", str(path), "--into", str(tmp_path / "record.db"), "--json"]
    result = limited_archqa(*words, mib=700)
    assert result.returncode == 1, result.stderr
    assert "is longer than 64 MiB" in result.stderr


def test_a_gzip_of_many_short_lines_may_unpack_to_more(tmp_path: Path) -> None:
    path = tmp_path / "long.ndjson.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(
            PATIENT + b"\n" + b" " * (40 * MIB) + b"\n" + b" " * (40 * MIB) + b"\n"
        )
        file.write(PATIENT.replace(b"p1", b"p2"))
    words = ["fhir", "load", str(path), "--into", str(tmp_path / "record.db"), "--json"]
    result = archqa(*words)
    assert result.returncode == 0, result.stderr
    assert '"added": 2' in result.stdout


def test_a_line_of_batch_results_without_end_is_a_mistake_of_the_file(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    submit = ["batch", "submit", "mini", "--limit", "1", "--model", "m", "--offline"]
    assert archqa(*submit, "--out", str(run)).returncode == 0
    results = tmp_path / "results.jsonl"
    results.write_bytes(b'{"custom_id": "' + b"x" * (17 * MIB) + b'"}\n')
    result = archqa("batch", "fetch", str(run), "--from", str(results))
    assert result.returncode == 3
    assert ":1: is too long for a reply" in result.stderr
