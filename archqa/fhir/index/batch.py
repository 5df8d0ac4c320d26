"""Index batches: resources with their index rows, ready to be written to a record.

Most of the loading time is spent here. It needs no database, so processes can work in parallel. A
worker is this module run by the same Python, with pickled messages over its standard input and
output. `multiprocessing` would import the caller's main module again, which a library must not
require.
"""

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Generic, NamedTuple, Self, TypeVar

from archqa.fhir.index.blobs import compress_blobs
from archqa.fhir.index.schema import (
    INDEX_COLUMN_COUNTS,
    MAX_ITEMS,
    OF_TYPE,
    REFERENCE_IDENTIFIER,
    SHARED,
    UNINDEXED,
    item_number,
    resource_of_item,
)
from archqa.fhir.index.sources import ParsedResource, ResourceParser, SourceChunk
from archqa.fhir.record import member_of
from archqa.fhir.values import dates, element_values
from archqa.fhir.values.element_values import (
    CodedTerm,
    PathGetter,
    compile_path,
    root_element,
)
from archqa.fhir.values.references import (
    ReferenceTarget,
    parse_conditional_reference,
    parse_reference_element,
)
from archqa.fhir.values.search_parameters import (
    Kind,
    elements,
    group_elements,
    grouped_path,
    has_texts,
    is_identifier_element,
    parameters,
)

_T = TypeVar("_T")
_Patients = tuple[int, ...]
_Emit = Callable[[int, int, Any, _Patients], None]
_UrnTargets = Mapping[str, ReferenceTarget]
_CodingKey = tuple[str | None, str | None, str | None]
_Step = tuple[_Emit, int, PathGetter]

_NO_PATIENT = (0,)

_MIN_BYTES_FOR_WORKERS = 4 * 2**20
"""Bytes of files on disk below which workers do not pay: starting them takes half a second."""

_MAX_WORKERS = 4

_PROGRAM = "from archqa.fhir.index.batch import work; work()"
_LENGTH_BYTES = 8
"""Bytes of the length before each message."""

MAX_PATIENTS = 4
"""Patients of a resource for each of whom its index rows are repeated.

The rows of a resource about more patients would be as many as the square of its references.
"""

MAX_UNRESOLVED = 100
"""References by `urn:` outside of their bundle that are indexed of one element of a resource."""


class ResourceRow(NamedTuple):
    """A resource's type, id, last change (UTC microseconds since 0001) and compressed text."""

    type: str
    id: str
    updated: int | None
    blob: bytes


@dataclass
class IndexRows:
    """Index rows by table. They begin with the position of their resource in the batch.

    Elements (type, kind, path), terms and targets have numbers within the batch: their positions in
    these lists; 0 stands for none. `flags` are settings that the record needs for searches to be
    right. `unindexed` maps a resource's position to the number of its references that have no row.
    `unresolved_targets` are those of references by `urn:` that no bundle resolves. With `has_items`,
    there are rows of single items, such as the components of an Observation.
    """

    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in INDEX_COLUMN_COUNTS}
    )
    elements: list[tuple[str, str, str]] = field(default_factory=lambda: [("", "", "")])
    terms: list[CodedTerm] = field(
        default_factory=lambda: [CodedTerm(None, None, None)]
    )
    targets: list[ReferenceTarget] = field(
        default_factory=lambda: [ReferenceTarget("", "")]
    )
    max_durations: dict[int, int] = field(default_factory=dict)
    used_terms: set[tuple[int, int]] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)
    unindexed: Counter[int] = field(default_factory=Counter)
    unresolved_targets: set[int] = field(default_factory=set)
    has_items: bool = False


@dataclass
class IndexBatch:
    """Resources with their index rows, and what was noted while their source was parsed."""

    resource_rows: list[ResourceRow]
    dictionary: bytes
    index: IndexRows
    parser: ResourceParser = field(default_factory=ResourceParser)


def build_index_batch(chunks: Iterable[SourceChunk]) -> IndexBatch:
    """Read chunks of one source and extract the index rows of their resources."""
    parser = ResourceParser()
    resources: list[ParsedResource] = []
    for chunk in chunks:
        resources.extend(parser.parse(chunk))
    batch = index_batch_of(resources)
    batch.parser = parser
    return batch


def index_batch_of(resources: list[ParsedResource]) -> IndexBatch:
    """Extract the index rows of parsed resources."""
    extractor = IndexRowExtractor()
    compressed = compress_blobs([parsed.text.encode() for parsed in resources])
    resource_rows = []
    for n, (parsed, blob) in enumerate(zip(resources, compressed.blobs, strict=True)):
        resource = parsed.resource
        extractor.add(n, resource, parsed.urn_targets)
        text = member_of(resource.get("meta"), "lastUpdated")
        time_range = dates.parse_time_range(text) if isinstance(text, str) else None
        updated = time_range.low_utc if time_range else None
        row = ResourceRow(
            resource["resourceType"],
            resource["id"],
            updated,
            blob,
        )
        resource_rows.append(row)
    return IndexBatch(resource_rows, compressed.dictionary, extractor.index)


class _Numbers(Generic[_T]):
    """Numbers for values: their positions in a list, which grows."""

    def __init__(self, values: list[_T]) -> None:
        self.values = values
        self._numbers: dict[_T, int] = {}

    def of(self, value: _T) -> int:
        """Return the number of a value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


class _Plan(NamedTuple):
    """What is indexed of a type: elements by the member that they start at, the items of groups.

    Most resources have few of the members.
    """

    steps: dict[str | None, list[_Step]]
    groups: list[tuple[str, list[_Step]]]
    patient_getters: list[PathGetter]


class IndexRowExtractor:
    """Gather the index rows of resources in `index`."""

    def __init__(self) -> None:
        self.index = IndexRows()
        self._elements = _Numbers(self.index.elements)
        self._terms = _Numbers(self.index.terms)
        self._targets = _Numbers(self.index.targets)
        self._rows = self.index.rows
        self._token_rows = self._rows["token"]
        self._reference_rows = self._rows["reference"]
        self._unresolved_urns: dict[int, set[str]] = {}
        self._plans: dict[str, _Plan] = {}
        self._urn_targets: _UrnTargets = {}
        self._coding_cache: dict[_CodingKey, int] = {}
        self._reference_cache: dict[str, list[int]] = {}
        self._uri_cache: dict[str, list[int]] = {}

    def add(
        self,
        n: int,
        resource: dict[str, Any],
        urn_targets: _UrnTargets,
    ) -> None:
        """Gather the rows of one resource.

        `urn_targets` are the resources that the `urn:uuid:…` of its bundle stand for.
        """
        self._urn_targets = urn_targets
        self._unresolved_urns.clear()
        resource_type = resource["resourceType"]
        plan = self._plans.get(resource_type) or self._make_plan(resource_type)
        patients = self._patients(resource, plan)
        for member in (None, *resource):
            for emit, p, values_of in plan.steps.get(member, ()):
                for value in values_of(resource):
                    emit(
                        n,
                        p,
                        value,
                        patients,
                    )
        for group, steps in plan.groups:
            items: Sequence[Any] = (
                compile_path(group)(resource) if group in resource else ()
            )
            for index, item in enumerate(items[:MAX_ITEMS]):
                if not isinstance(item, dict):
                    continue
                self.index.has_items = True
                number = item_number(n, index)
                for emit, p, values_of in steps:
                    for value in values_of(item):
                        emit(
                            number,
                            p,
                            value,
                            patients,
                        )
        if n in self.index.unindexed:
            self.index.flags.add(f"{UNINDEXED}{resource_type}")

    def _make_plan(self, resource_type: str) -> _Plan:
        emitters: dict[Kind, _Emit] = {
            Kind.TOKEN: self._emit_token,
            Kind.DATE: self._emit_date,
            Kind.REFERENCE: self._emit_reference,
            Kind.QUANTITY: self._emit_quantity,
            Kind.NUMBER: self._emit_quantity,
            Kind.STRING: self._emit_string,
            Kind.URI: self._emit_uri,
        }
        patient = parameters(resource_type).get("patient")
        patient_paths = patient.elements if patient is not None else ()
        plan = _Plan({}, [], list(map(compile_path, patient_paths)))
        for kind, path in elements(resource_type):
            emit = emitters[kind]
            if kind is Kind.TOKEN and has_texts(resource_type, path):
                emit = self._emit_concept
            if kind is Kind.TOKEN and is_identifier_element(path):
                emit = self._identifier_emitter(emit)
            p = self._elements.of((resource_type, kind.value, path))
            steps = plan.steps.setdefault(root_element(path), [])
            steps.append((emit, p, compile_path(path)))
        for group, members in group_elements(resource_type).items():
            group_steps: list[_Step] = []
            plan.groups.append((group, group_steps))
            for kind, path in members:
                p = self._elements.of(
                    (resource_type, kind.value, grouped_path(group, path))
                )
                group_steps.append((emitters[kind], p, compile_path(path)))
        self._plans[resource_type] = plan
        return plan

    def _patients(self, resource: dict[str, Any], plan: _Plan) -> _Patients:
        """Return the targets of the patients that a resource is about."""
        patients: dict[int, None] = {}
        for values_of in plan.patient_getters:
            for value in values_of(resource):
                for t in self._target_numbers(value):
                    if self.index.targets[t].type in {"Patient", ""}:
                        patients[t] = None
                        if len(patients) > MAX_PATIENTS:
                            self.index.flags.add(f"{SHARED}{resource['resourceType']}")
                            return _NO_PATIENT
        return tuple(patients) or _NO_PATIENT

    def _emit_token(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        for t in self._term_numbers(value):
            for patient in patients:
                self._token_rows.append((n, p, t, patient))

    def _emit_concept(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        for t in self._term_numbers(value):
            self.index.used_terms.add((p, t))
            for patient in patients:
                self._token_rows.append((n, p, t, patient))

    def _identifier_emitter(self, emit_token: _Emit) -> _Emit:
        """Return what gathers an Identifier's rows: those of its value, and of its types with it."""

        def emit(
            n: int,
            p: int,
            value: Any,
            patients: _Patients,
        ) -> None:
            emit_token(
                n,
                p,
                value,
                patients,
            )
            if type(value) is dict and "type" in value:
                p_of_type = self._related_element(p, OF_TYPE)
                for term in element_values.extract_typed_identifiers(value):
                    t = self._terms.of(term)
                    for patient in patients:
                        self._token_rows.append((n, p_of_type, t, patient))

        return emit

    def _related_element(self, p: int, suffix: str) -> int:
        """Return the number of the token element whose path goes on with a suffix."""
        resource_type, _, path = self.index.elements[p]
        return self._elements.of((resource_type, Kind.TOKEN.value, f"{path}{suffix}"))

    def _emit_uri(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        if type(value) is not str:
            return
        numbers = self._uri_cache.get(value)
        if numbers is None:
            numbers = self._uri_cache[value] = []
            for uri in element_values.extract_uris(value):
                numbers.append(self._terms.of(CodedTerm(None, uri, None)))
        for t in numbers:
            for patient in patients:
                self._token_rows.append((n, p, t, patient))

    def _term_numbers(self, value: Any) -> list[int]:
        """Return the numbers of a value's terms; values with codings alone are cached."""
        if type(value) is not dict or len(value) != 1 or "coding" not in value:
            return list(map(self._terms.of, element_values.extract_terms(value)))
        try:
            cached = []
            for coding in value["coding"]:
                key = (coding.get("system"), coding.get("code"), coding.get("display"))
                cached.append(self._coding_cache[key])
            return cached
        except (KeyError, TypeError, AttributeError):
            numbers = list(map(self._terms.of, element_values.extract_terms(value)))
        if len(numbers) == 1:
            coding = value["coding"][0]
            key = (coding.get("system"), coding.get("code"), coding.get("display"))
            if all(text is None or type(text) is str for text in key):
                self._coding_cache[key] = numbers[0]
        return numbers

    def _emit_reference(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        if type(value) is dict and "identifier" in value:
            self._emit_token(
                n,
                self._related_element(p, REFERENCE_IDENTIFIER),
                value["identifier"],
                patients,
            )
        text = value.get("reference") if type(value) is dict else None
        urn = ""
        if type(text) is str and text.startswith(("urn:uuid:", "urn:oid:")):
            urn = text.split(":", 2)[2]
        is_unresolved = urn != "" and urn not in self._urn_targets
        if is_unresolved:
            urns = self._unresolved_urns.setdefault(p, set())
            if urn not in urns and len(urns) >= MAX_UNRESOLVED:
                self.index.unindexed[n if n >= 0 else resource_of_item(n)] += 1
                return
            urns.add(urn)
        for t in self._target_numbers(value):
            if is_unresolved:
                self.index.unresolved_targets.add(t)
            for patient in patients:
                self._reference_rows.append((n, p, t, patient))

    def _target_numbers(self, value: Any) -> list[int]:
        """Return the numbers of a Reference's targets; cached outside of bundles."""
        text = value.get("reference") if type(value) is dict else None
        if type(text) is str and not self._urn_targets:
            numbers = self._reference_cache.get(text)
            if numbers is None:
                numbers = self._reference_cache[text] = list(
                    map(self._targets.of, _targets(value))
                )
            return numbers
        numbers = []
        for target in _targets(value):
            if not target.type:
                target = self._urn_targets.get(target.id, target)
            numbers.append(self._targets.of(target))
        return numbers

    def _emit_date(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        rows = self._rows["date"]
        durations = self.index.max_durations
        for low, high, low_utc, high_utc, _ in element_values.extract_time_ranges(
            value
        ):
            if high - low > durations.get(p, 0):
                durations[p] = high - low
            for patient in patients:
                rows.append((n, p, low, high, low_utc, high_utc, patient))

    def _emit_quantity(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        rows = self._rows["quantity"]
        for amount in element_values.extract_amounts(value):
            t = self._terms.of(amount.unit)
            for patient in patients:
                rows.append((n, p, amount.low, amount.high, t, patient))

    def _emit_string(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        rows = self._rows["string"]
        for folded, exact in element_values.extract_strings(value):
            for patient in patients:
                rows.append((n, p, folded, exact, patient))


def _targets(value: Any) -> list[ReferenceTarget]:
    """Return what a Reference points to, by an id or by a condition."""
    target = parse_reference_element(value)
    text = value.get("reference") if type(value) is dict and not target else None
    if type(text) is str:
        target = parse_conditional_reference(text)
    return [target] if target else []


class IndexWorkers:
    """Build index batches in a number of other processes; with 0, in this one."""

    def __init__(self, workers: int) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes = [_start() for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers) if workers else None
        self.max_pending = 2 * workers
        """Batches to submit before waiting for the first result."""
        for process in self._processes:
            self._idle.put(process)

    def submit(self, chunks: Sequence[SourceChunk]) -> "Future[IndexBatch]":
        """Return the future batch of these chunks."""
        if self._threads is not None:
            return self._threads.submit(self._build, chunks)
        future: Future[IndexBatch] = Future()
        future.set_result(build_index_batch(chunks))
        return future

    def _build(self, chunks: Sequence[SourceChunk]) -> IndexBatch:
        process = self._idle.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _write(process.stdin, chunks)
            batch = _read(process.stdout)
        except (OSError, EOFError, ValueError):
            batch = None
        finally:
            self._idle.put(process)
        if isinstance(batch, IndexBatch):
            return batch
        # The worker was killed, or could not be started: build the batch here.
        return build_index_batch(chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()


def worker_count_for(size: int) -> int:
    """Return the number of workers for a load of so many bytes."""
    cores = _core_count()
    if size < _MIN_BYTES_FOR_WORKERS or cores == 1:
        return 0
    return min(cores, _MAX_WORKERS)


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work() -> None:
    """Run a worker: build batches until the input ends."""
    while True:
        try:
            chunks = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(sys.stdout.buffer, build_index_batch(chunks))


def _start() -> "subprocess.Popen[bytes]":
    paths = [str(Path(__file__).resolve().parents[3])]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _write(stream: IO[bytes], message: object) -> None:
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(content).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    """Read a message.

    Unpickling is safe: only the process at the other end can write to the pipe.
    """
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(length, "big")))
