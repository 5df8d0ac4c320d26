"""The sandbox: what code finds there, what it may not do, and that a thousand hostile snippets leave nothing behind."""

import json
import os
import socket
import statistics
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.agents import sandbox_prelude
from archqa.agents.sandbox import SandboxLimits, run_code
from tests.agents.hostile import snippets
from tests.fhir.invented import ward_resources

SMALL = SandboxLimits(seconds=0.1, memory_mib=64, characters=2000)

WARD: dict[str, list[dict[str, Any]]] = {}
for _each in ward_resources():
    WARD.setdefault(_each["resourceType"], []).append(_each)


def answer_of(code: str) -> Any:
    ran = run_code(code, WARD)
    assert ran.fault == "", ran.error
    return ran.answer


def test_code_sees_the_resources_and_sets_an_answer() -> None:
    assert answer_of("answer = len(retrieved_resources['Encounter'])") == len(
        WARD["Encounter"]
    )


def test_the_name_that_pointers_use_is_the_same_dictionary() -> None:
    """The benchmark tells its agents of `retrieved_fhir_resources` and gives them `retrieved_resources`."""
    code = "retrieved_resources['X'] = [1]\nanswer = retrieved_fhir_resources['X']"
    assert answer_of(code) == [1]


def test_what_is_printed_is_kept_beside_the_answer() -> None:
    ran = run_code("print('one', 2)\nanswer = 3", {})
    assert (ran.answer, ran.stdout) == (3, "one 2\n")


def test_the_benchmarks_modules_are_there_without_an_import_and_with_one() -> None:
    ready = "answer = [json.loads('[1]'), re.findall('a', 'aa'), math.floor(2.5), datetime.date(2130, 1, 2)]"
    assert answer_of(ready) == [[1], ["a", "a"], 2, "2130-01-02"]
    assert (
        answer_of(
            "import statistics\nimport statistics as s\nanswer = statistics.mean([1, 2]) + s.median([1, 3])"
        )
        == 3.5
    )
    assert answer_of(
        "from statistics import mean, pstdev as spread\nanswer = [mean([2, 4]), spread([2, 4])]"
    ) == [3, 1]


def test_helpers_read_names_references_codes_times_and_kinds() -> None:
    code = """
heparin = [m for m in retrieved_resources["Medication"] if m["id"] == "m4"][0]
orders = [o for o in retrieved_resources["MedicationRequest"] if resolve(o["medicationReference"]) == heparin]
glucose = [o for o in retrieved_resources["Observation"] if has_code(o, " gLUCOSE ")]
answer = {
    "orders": [o["id"] for o in orders],
    "kinds": [encounter_kind(e) for e in retrieved_resources["Encounter"]],
    "glucose": [value_of(o) for o in glucose],
    "times": [time_of(o) for o in glucose],
    "hours": (parse_time("2130-01-02T06:00:00-05:00") - parse_time("2130-01-01")).total_seconds() / 3600,
    "organism": display(retrieved_resources["Observation"][5]),
    "reference": reference_id("Encounter/h1"),
}
"""
    assert answer_of(code) == {
        "orders": ["r2", "r3"],
        "kinds": ["hospital", "icu", "hospital", "hospital"],
        "glucose": [5.4, 7.1, 4.9],
        "times": ["2130-01-01 23:30:00", "2130-01-02 06:00:00", "2130-05-01 10:00:00"],
        "hours": 30.0,
        "organism": "STAPH AUREUS",
        "reference": "h1",
    }


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (
            "display({'type': [{'coding': [{'code': 'c', 'display': 'Check up'}]}]}, 'type')",
            "Check up",
        ),
        ("display({'class': {'code': 'EMER', 'system': 's'}}, 'class')", "EMER"),
        ("display({'type': [{'text': 'Check up'}]}, 'type')", "Check up"),
        ("display({}, 'type')", ""),
        (
            "has_code({'type': [{'text': 'a'}, {'coding': [{'code': 'B'}]}]}, 'b', 'type')",
            True,
        ),
        ("time_of({'onsetDateTime': '2020-01-31T10:00:00Z'})", "2020-01-31 10:00:00"),
        ("time_of({'occurrenceDateTime': '2020-01-31'})", "2020-01-31"),
        ("reference_id({'reference': 'urn:uuid:1-2'})", "1-2"),
    ],
)
def test_helpers_read_elements_that_repeat_and_ids_of_bundles(
    code: str, answer: Any
) -> None:
    assert answer_of(f"answer = {code}") == answer


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=30))
def test_statistics_inside_are_those_outside(data: list[int]) -> None:
    for name in (
        "mean",
        "fmean",
        "median",
        "median_low",
        "median_high",
        "mode",
        "multimode",
        "variance",
        "pvariance",
    ):
        assert getattr(sandbox_prelude.statistics, name)(data) == pytest.approx(
            getattr(statistics, name)(data)
        ), name
    for name in ("stdev", "pstdev"):
        assert getattr(sandbox_prelude.statistics, name)(data) == pytest.approx(
            getattr(statistics, name)(data)
        ), name


@pytest.mark.parametrize(
    "name",
    ["mean", "median", "median_low", "median_high", "mode", "stdev", "pvariance"],
)
def test_statistics_of_nothing_are_an_error_in_words(name: str) -> None:
    ran = run_code(f"answer = statistics.{name}([])", {})
    assert ran.fault == "code"
    assert ran.error.startswith("ValueError: ")


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        (
            "def each():\n    yield 1\nanswer = list(each())",
            "unsupported",
            "does not know yield expressions",
        ),
        ("x = [1]\ndel x[0]", "unsupported", "'del' statement"),
        ("answer = (", "syntax", "SyntaxError"),
        ("answer = 1 / 0", "code", "ZeroDivisionError: division by zero"),
        ("answer = {}['glucose']", "code", "KeyError"),
        ("import pandas", "code", "No module named 'pandas'"),
        ("while True:\n    pass", "time", "longer than 0.1 seconds"),
        ("x = [0] * 10 ** 9", "memory", "more than 64 MiB"),
    ],
)
def test_what_goes_wrong_has_a_kind_and_is_told_in_words(
    code: str, fault: str, words: str
) -> None:
    ran = run_code(code, {}, SMALL)
    assert ran.fault == fault
    assert words in ran.error
    assert ran.answer is None


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("answer = datetime.datetime(2130, 1, 2, 3, 4, 5)", "2130-01-02 03:04:05"),
        ("answer = {'b', 'a'}", ["a", "b"]),
        ("answer = (1, [2.5, None, True])", [1, [2.5, None, True]]),
        ("answer = float('nan')", "NaN"),
        ("answer = {(1, 2): 3}", "(a dict that JSON has no form for)"),
        ("answer = []\nanswer.append(answer)", ["[...]"]),
    ],
)
def test_an_answer_comes_out_as_json(code: str, answer: Any) -> None:
    assert run_code(code, {}, SMALL).answer == answer


def test_long_answers_and_long_prints_are_cut_and_say_so() -> None:
    ran = run_code("print('a' * 5000)\nanswer = 'b' * 5000", {}, SMALL)
    assert ran.answer == f"{'b' * 2000}… (truncated, 3000 more characters)"
    assert ran.stdout.endswith("(truncated, 3001 more characters)")


SHARED_LISTS = """
shared = [1, 2]
for _ in range(20):
    shared = [shared, shared]
"""


@pytest.mark.parametrize(
    "code",
    [
        "def {name}(*arguments):\n    return shared\nanswer = 'mine'",
        "{name} = None\nanswer = 'mine'",
    ],
)
@pytest.mark.parametrize(
    "name", ["run", "export_answer", "_answer", "_json_values", "str", "json", "len"]
)
def test_code_cannot_redefine_what_exports_its_answer(code: str, name: str) -> None:
    assert answer_of(SHARED_LISTS + code.format(name=name)) == "mine"


@pytest.mark.parametrize(
    "code",
    [
        "answer = shared",
        "answer = {'a': shared, 'b': (shared,)}",
        "raise ValueError(str(shared))",
        "class Text:\n    def __str__(self):\n        return str(shared)\nanswer = Text()",
        "class Text:\n    def __repr__(self):\n        return ''\n"
        "    def __str__(self):\n        return str(shared)\nanswer = [Text()]",
        "class Text:\n    def __str__(self):\n        while True:\n            pass\nanswer = Text()",
    ],
)
def test_no_more_than_a_bounded_text_leaves_the_sandbox(code: str) -> None:
    """The lists share their parts: 20 of them are four million numbers once they are written out."""
    limits = SMALL.model_copy(update={"seconds": 1.5})
    started = time.monotonic()
    tracemalloc.start()
    result = run_code(SHARED_LISTS + code, {}, limits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(json.dumps(result.answer)) < 3000
    assert len(result.error) < 3000
    assert peak < 2**20
    assert time.monotonic() - started < limits.seconds + 5


@pytest.mark.parametrize(
    "code",
    [
        "\n" * 40_000,
        " " * 40_000,
        " \n" * 40_000,
        "from statistics import" + " " * 40_000 + ";",
        "import statistics as" + "\t" * 40_000 + ";",
    ],
)
def test_code_of_many_blanks_takes_the_host_no_time(code: str) -> None:
    """40,000 empty lines took 24 seconds."""
    started = time.monotonic()
    run_code(f"{code}\nanswer = 1", {}, SMALL)
    assert time.monotonic() - started < 5


def test_one_run_knows_nothing_of_another() -> None:
    run_code("leaked = 1\nretrieved_resources['X'] = [1]\nlen = None", {}, SMALL)
    assert run_code("answer = leaked", {}, SMALL).fault == "code"
    assert run_code("answer = len(retrieved_resources)", {}, SMALL).answer == 0


def test_resources_of_the_host_are_not_changed() -> None:
    given_ = {"Patient": [{"id": "p1"}]}
    assert (
        run_code(
            "retrieved_resources['Patient'][0]['id'] = 'x'\nanswer = 1", given_, SMALL
        ).answer
        == 1
    )
    assert given_ == {"Patient": [{"id": "p1"}]}


def children() -> set[str]:
    """Processes that this one started and that are still there."""
    processes = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            processes.add(stat.parent.name)
    return processes


class Trap:
    """A file, a folder, a port and a variable that nobody may touch.

    And what this process looks like.
    """

    def __init__(self, folder: Path) -> None:
        self.canary = folder / "canary.txt"
        self.canary.write_text("untouched")
        self.folder = folder
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.before = self.seen()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def seen(self) -> tuple[Any, ...]:
        rows = sorted(
            (path.name, path.stat().st_mtime_ns) for path in self.folder.iterdir()
        )
        return (
            self.canary.read_text(),
            rows,
            children(),
            Path("/tmp/harm").exists(),
            os.environ["ARCHQA_CANARY"],
        )

    def assert_untouched(self) -> None:
        assert self.seen() == self.before
        with pytest.raises(BlockingIOError):
            self.socket.accept()


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    monkeypatch.setenv("ARCHQA_CANARY", "Quagga-4711")
    trap = Trap(tmp_path)
    yield trap
    trap.socket.close()


def attack(trap: Trap, every: int) -> int:
    whole = list(
        snippets(str(trap.canary), str(trap.folder), trap.port, "ARCHQA_CANARY")
    )
    for code in whole[::every]:
        began = time.monotonic()
        ran = run_code(code, {"Patient": [{"id": "p1"}]}, SMALL)
        assert time.monotonic() - began < 10, code
        output = f"{ran.answer} {ran.stdout} {ran.error}"
        assert "Quagga-4711" not in output, code
        assert "untouched" not in output, code
        assert "root:" not in output, code
    trap.assert_untouched()
    return len(whole[::every])


def test_hostile_code_leaves_nothing_behind(trap: Trap) -> None:
    assert attack(trap, 11) > 90


@pytest.mark.long
def test_a_thousand_hostile_snippets_leave_nothing_behind(trap: Trap) -> None:
    assert attack(trap, 1) >= 1000
