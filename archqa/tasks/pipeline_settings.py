"""The base of every pipeline's settings."""

from archqa.core.value import FrozenModel


class PipelineSettings(FrozenModel):
    """The settings of a pipeline; this base is for pipelines that have none."""

    @property
    def writes_to_record(self) -> bool:
        """Whether the pipeline stores anything in the FHIR record."""
        return False
