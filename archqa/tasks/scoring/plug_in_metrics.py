"""Metrics of plug-ins, for `scoring`, which knows nothing of archqa.

Other distributions add them by entry points of the group `archqa.metrics`. Each names a subclass of
`scoring.Metric`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from archqa import plug_ins
from archqa.errors import PlugInError
from scoring import Metric, ScoringError, add_metric_source, own_metrics


class PlugInMetrics:
    """The metrics of plug-ins, as `scoring` looks for those that it does not have."""

    def names(self) -> Sequence[str]:
        """Their names."""
        return [plug_in.name for plug_in in plug_ins.installed("metrics", own_metrics())]

    def load(self, name: str) -> type[Metric[Any]] | None:
        """The metric of a name; None if no plug-in has it.

        Raises `ScoringError` for a plug-in that cannot be used.
        """
        try:
            plug_in = plug_ins.find("metrics", name)
            return None if plug_in is None else _metric_of(plug_in)
        except PlugInError as error:
            raise ScoringError(str(error)) from None


def metric_origins(signatures: Iterable[str]) -> dict[str, str]:
    """`metrics.words_per_line` → `archqa-example-plugin 0.1.0`, for signatures of plug-ins' metrics."""
    names = [signature.partition("|")[0] for signature in signatures]
    own = (plug_ins.find("metrics", name, own_metrics()) for name in names)
    return {f"metrics.{metric.name}": metric.origin for metric in own if metric is not None}


def _metric_of(plug_in: plug_ins.PlugIn) -> type[Metric[Any]]:
    metric = plug_in.load()
    is_metric = isinstance(metric, type) and issubclass(metric, Metric)
    if not is_metric or metric.name != plug_in.name:
        raise plug_in.problem("is no scoring.Metric of that name")
    metric_class: type[Metric[Any]] = metric
    return metric_class


add_metric_source(PlugInMetrics())
