"""The files of a run: `run.json` describes the run, lines of `cases.jsonl` its cases."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import FiniteFloat, ValidationInfo, field_serializer, field_validator

from archqa.core import html
from archqa.core.answer import CitedAnswer
from archqa.core.judgement import Judgement, mean_probabilities
from archqa.core.result import TaskResult
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel, JsonObject
from archqa.safety.server_urls import without_secrets

SCHEMA_VERSION = 1
"""Version of the two file formats; a reader refuses a newer one."""


class RunStatus(StrEnum):
    """How a run stands. One that was killed still says `running`."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


class CaseStatus(StrEnum):
    """How a case ended. `UNANSWERABLE` is a typed refusal."""

    ANSWERED = "answered"
    FAILED = "failed"
    UNANSWERABLE = "unanswerable"


class DataFingerprint(FrozenModel):
    """Which data was used: where it lay, and its sha256."""

    path: str
    sha256: str


class AgentBackend(FrozenModel):
    """What runs an agent: a model at a server, the engine inside archqa, or a backend of others.

    `name` is that of the model or backend, `server` a base URL or api.openai.com. `digest` names the
    weights of the engine; there is none where the grammar answers. `origin` is the distribution of
    a plug-in with its version, or the class of an object that a caller of `predict` passed.
    """

    kind: Literal["model", "embedded", "custom"]
    name: str | None = None
    server: str | None = None
    digest: str | None = None
    origin: str | None = None

    def __str__(self) -> str:
        if self.kind == "model":
            return f"{self.name} at {self.server}"
        if self.kind == "custom":
            return f"{self.name} of {self.origin}"
        return f"embedded:{self.digest}" if self.digest else "embedded"


class RunManifest(FrozenModel):
    """`run.json`: all that must be known to understand a run, and to go on with it.

    `inputs` maps a setting that names a file the pipeline read besides the cases to the file's
    sha256. `destinations` are the hosts that the run may send record text or queries to, with the
    proxies on the way; a run whose replies were all cached sent nothing. `plug_ins` maps what came
    from plug-ins (`pipelines.plain`) to their distribution with its version.
    """

    schema_version: int = SCHEMA_VERSION
    run: str
    status: RunStatus = RunStatus.RUNNING
    started_at: datetime
    ended_at: datetime | None = None
    task: str
    pipeline: str
    data: DataFingerprint
    case_ids: tuple[str, ...]
    settings: dict[str, Any]
    backends: dict[str, AgentBackend]
    destinations: tuple[str, ...] = ()
    prompts: dict[str, str]
    inputs: dict[str, str] = {}
    remarks: tuple[str, ...] = ()
    versions: dict[str, str]
    plug_ins: dict[str, str] = {}
    git_revision: str | None = None
    seconds: FiniteFloat = 0.0

    @field_validator("settings", "backends", mode="before")
    @classmethod
    def _drop_secrets_in_urls(cls, value: Any) -> Any:
        """A manifest is shown in reports and passed on: no URL in it holds a password."""
        return _without_secrets(value)

    @field_serializer("backends")
    def _backends_to_json(self, backends: dict[str, AgentBackend]) -> JsonObject:
        return {
            agent: backend.model_dump(exclude_none=True)
            for agent, backend in backends.items()
        }

    @property
    def answered_by(self) -> tuple[str, ...]:
        """What runs the agents in words, each once."""
        return tuple(dict.fromkeys(str(backend) for backend in self.backends.values()))

    def with_remarks(self, remarks: Iterable[str]) -> "RunManifest":
        """The manifest with further remarks; a resumed run repeats none."""
        distinct = tuple(dict.fromkeys((*self.remarks, *remarks)))
        return self.model_copy(update={"remarks": distinct})

    def with_destinations(self, destinations: Iterable[str]) -> "RunManifest":
        """The manifest with further destinations, each once."""
        distinct = tuple(dict.fromkeys((*self.destinations, *destinations)))
        return self.model_copy(update={"destinations": distinct})


def _without_secrets(value: Any) -> Any:
    """A JSON value whose texts hold no user names, passwords or queries of URLs."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {name: _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return value


class CaseRecord(FrozenModel):
    """One line of `cases.jsonl`.

    `error` is a type and a sentence, without record text. Where it quotes the question,
    `error_summary` is the same without: a log may have it.

    `result` is of the task's own type (`Task.result_type`), None where there is none; in the file
    that is an empty object. Reading a line needs that type as the validation context
    `{"result_type": ...}`.
    """

    id: str
    status: CaseStatus
    answer: CitedAnswer | None = None
    result: TaskResult | None = None
    evidence: tuple[str, ...] = ()
    judgements: dict[str, tuple[Judgement, ...]] = {}
    experts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    usage: Usage = Usage()
    seconds: FiniteFloat = 0.0
    tries: int = 1
    error: str = ""
    error_summary: str = ""

    @field_validator("result", mode="before")
    @classmethod
    def _parse_result(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, Mapping):
            return value
        if not value:
            return None
        result_type = (info.context or {}).get("result_type")
        if result_type is None:
            raise ValueError("the task of this run has no result type")
        return result_type.from_json(value)

    @field_serializer("result")
    def _result_to_json(self, result: TaskResult | None) -> JsonObject:
        return result.to_json() if result else {}

    @property
    def submitted_text(self) -> str | None:
        """The answer with its citations; of a record, in words. None if there is none."""
        if self.answer is not None:
            return self.answer.submission
        return self.result.answer_text if self.result else None

    @property
    def evidence_ids(self) -> tuple[str, ...]:
        """The sentences or, of a record, the resources that the answer rests on."""
        return self.evidence or (self.result.cited_resources if self.result else ())

    def _repr_html_(self) -> str:
        """The answer with its evidence, or the error."""
        head = html.paragraph(f"Case {self.id}", self.error or self.status.value)
        answer = self.answer._repr_html_() if self.answer else ""
        if not self.evidence:
            return head + answer
        probabilities = mean_probabilities(self.judgements)
        rows = []
        for sentence_id in self.evidence:
            probability = probabilities.get(sentence_id)
            cell = "–" if probability is None else f"{probability:.2f}"
            rows.append((html.text(sentence_id), cell))
        return head + answer + html.table(("evidence", "probability"), rows)
