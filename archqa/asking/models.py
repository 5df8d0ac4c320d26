"""The models that questions are asked of: their connections are opened once and closed at the end."""

from typing import TYPE_CHECKING

from archqa.asking.question import AskOptions
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.fhir import Record
    from archqa.llm.model import Model
    from archqa.runs.backends import Backends
    from archqa.tasks.pipeline import Pipeline


class ModelBackends:
    """The backends of the pipelines that any number of questions need; without a model, none."""

    def __init__(self, options: AskOptions) -> None:
        self._options = options
        self._by_pipeline: dict[str, Backends] = {}
        self._of_records: list[Backends] = []

    def open(self, pipeline: "Pipeline") -> "Backends":
        """Return the backends of a pipeline that reads no FHIR record of its own.

        Raises `CallerError` where the settings ask for a model and no server was asked for.
        """
        if pipeline.name not in self._by_pipeline:
            settings = self._options.settings.replace(record=None, pipeline=None)
            self._by_pipeline[pipeline.name] = self._backends(settings, pipeline)
        return self._by_pipeline[pipeline.name]

    def open_for_record(
        self, pipeline: "Pipeline", settings: Settings, record: "Record"
    ) -> "Backends":
        """Return the backends of a pipeline over a record that is open. Raises as `open`."""
        from archqa.fhir import Store

        if isinstance(record, Store) and record.profile.name != pipeline.fhir_profile:
            record = record.as_profile(pipeline.fhir_profile)
        backends = self._backends(settings, pipeline, record)
        self._of_records.append(backends)
        return backends

    def _backends(
        self, settings: Settings, pipeline: "Pipeline", record: "Record | None" = None
    ) -> "Backends":
        from archqa.runs.backends import Backends  # Slow to import, and needed for models only.

        options = self._options
        return Backends(
            settings,
            pipeline,
            options.scripted,
            options.limits,
            options.announce,
            record=record,
        )

    async def close(self) -> None:
        """Close all connections."""
        for backends in (*self._by_pipeline.values(), *self._of_records):
            await backends.close()


def asks_model(settings: Settings, agent: str, scripted: "Model | None" = None) -> bool:
    """Whether a model answers for an agent: its server was asked for, for all agents or this one."""
    backend = settings.backend_of(agent)
    if backend is not None:
        return backend != "embedded"
    own = settings.agent(agent)
    return settings.has_model or bool(own.base_url) or scripted is not None
