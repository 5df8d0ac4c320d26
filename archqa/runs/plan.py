"""Plans a run before anything is written: which cases, which pipeline, which settings."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Self

from archqa import plug_ins, tasks
from archqa.agents.registry import plug_ins_of, prompts_of
from archqa.core.id_lists import list_ids
from archqa.core.near_misses import did_you_mean
from archqa.core.question import Item
from archqa.core.version import __version__
from archqa.errors import CallerError
from archqa.runs.folder import new_run_name
from archqa.runs.model_server import check_server_asked_for, model_agents, resolve_model
from archqa.runs.record import DataFingerprint, RunManifest
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_path
from archqa.settings import Settings
from archqa.tasks import CaseFile, pipelines, registry
from archqa.tasks.case_tables import TABLE_PATH, CaseTable, is_table
from archqa.tasks.pipeline import Pipeline

_MAX_DIGITS = 9
"""Of the number of a shard; Python refuses to read one of more than 4,300."""

_LIBRARIES = ("openai", "pydantic", "onnxruntime", "numpy")


class Shard(NamedTuple):
    """One of several equal parts of a case file: `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/4`. Raises `CallerError`."""
        counts = text.split("/")
        if len(counts) == 2 and all(_is_count(count) for count in counts):
            number, of = map(int, counts)
            if 1 <= number <= of:
                return cls(number, of)
        raise CallerError(
            f"--shard {text!r} is not K/N with 1 ≤ K ≤ N.\nFor example: --shard 2/4"
        )


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS


class Selection(NamedTuple):
    """Selects the cases of a file that a run covers: by shard, then by id, then the first few."""

    case_ids: tuple[str, ...] = ()
    limit: int | None = None
    shard: Shard | None = None

    def positions(self, ids: Sequence[str]) -> list[int]:
        """The positions of the selected cases in `ids`. Raises `CallerError` for unknown ids."""
        unknown = sorted(set(self.case_ids) - set(ids))
        if unknown:
            nearest = did_you_mean(unknown[0], ids, count=2)
            advice = "`archqa cases check FILE` lists its ids."
            raise CallerError(
                f"The file has no case {list_ids(unknown)}.\n{f'{nearest} {advice}'.strip()}"
            )
        positions = list(range(len(ids)))
        if self.shard is not None:
            positions = positions[self.shard.number - 1 :: self.shard.of]
        if self.case_ids:
            positions = [
                position for position in positions if ids[position] in self.case_ids
            ]
        if not positions:
            raise CallerError(
                "No case is left to run.\nCheck --case, --shard and the case file."
            )
        return positions[: self.limit]


class Plan(NamedTuple):
    """All that is decided before the first case starts.

    `manifest` does not say yet what runs the agents, and where text goes: that takes backends.
    """

    manifest: RunManifest
    cases: Sequence[Item]
    pipeline: Pipeline
    settings: Settings

    @property
    def asks_a_model(self) -> bool:
        """Whether the pipeline is one for models, and a model server runs any of its agents."""
        is_for_models = self.pipeline.backend == "model"
        return is_for_models and bool(model_agents(self.settings, self.pipeline))

    def with_served_model(self) -> "Plan":
        """The plan with the model that its server serves, where it was to be found out.

        Asks the server for its models if none was named. Raises `CallerError` where no server was
        asked for, or one has several models.
        """
        check_server_asked_for(self.settings, self.pipeline)
        if not self.asks_a_model:
            return self
        settings = resolve_model(self.settings)
        changes = {"settings": settings.without_secrets(self.pipeline)}
        return self._replace(
            settings=settings, manifest=self.manifest.model_copy(update=changes)
        )


def plan_run(
    source: str | Path | CaseFile | CaseTable,
    task: str | None,
    selection: Selection,
    settings: Settings,
) -> Plan:
    """Return the plan of a run of these cases with these settings; write nothing, ask no server.

    The pipeline is that of the settings, else the task's default with or without a model. Raises
    `CallerError` for an unknown pipeline, settings without effect and an empty selection,
    `InputError` for a malformed file.
    """
    if not isinstance(source, CaseFile):
        place = source if is_table(source) else as_path(source, "cases")
        source = tasks.load_cases_to_answer(place, task)
    file = tasks.with_clinician_answers(tasks.complete(source), settings.answer_key)
    if settings.pipeline:
        pipeline = pipelines.find(settings.pipeline, file.task)
    else:
        pipeline = pipelines.default(file.task, model=settings.prefers_model_pipeline)
    check_settings_used(settings, pipeline)
    inputs = pipeline.inputs(settings.for_pipeline(pipeline))
    positions = selection.positions(file.ids)
    prompts = {}
    for prompt in pipeline.prompts:
        version = settings.prompt_version(prompt)
        prompts[version] = prompts_of(prompt, pipeline.agents).digest(version)
    versions = {"archqa": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        versions[library] = metadata.version(library)
    is_no_file = str(file.path) in {"-", TABLE_PATH}
    path = file.path if is_no_file else file.path.absolute()
    now = datetime.now(UTC)
    manifest = RunManifest(
        run=new_run_name(now, file.task, pipeline.name),
        started_at=now,
        task=file.task,
        pipeline=pipeline.name,
        data=DataFingerprint(path=str(path), sha256=file.sha256),
        case_ids=tuple(file.ids[position] for position in positions),
        settings=settings.without_secrets(pipeline),
        backends={},
        prompts=prompts,
        inputs=dict(inputs.sha256),
        remarks=(*file.remarks, *inputs.remarks),
        versions=versions,
        plug_ins=_plug_in_origins(file.task, pipeline, settings),
        git_revision=_git_revision(),
    )
    return Plan(manifest, file.select(positions), pipeline, settings)


def _plug_in_origins(
    task: str, pipeline: Pipeline, settings: Settings
) -> dict[str, str]:
    """`pipelines.plain` → `archqa-example-plugin 0.1.0`, for all that is not archqa's own."""
    used: list[plug_ins.PlugIn | None] = []
    if not registry.is_registered(task):
        used.append(plug_ins.find("tasks", task))
    if pipeline.tasks:
        used.append(plug_ins.find("pipelines", pipeline.name))
    for backend in settings.plug_in_backends(pipeline.agents):
        used.append(plug_ins.find("backends", backend))
    used += plug_ins_of(pipeline.agents)
    origins = {}
    for plug_in in used:
        if plug_in is not None:
            origins[f"{plug_in.kind}.{plug_in.name}"] = plug_in.origin
    return origins


def _git_revision() -> str | None:
    """Return the revision of the checkout archqa runs from; None in an installed wheel."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stdout.strip() or None
