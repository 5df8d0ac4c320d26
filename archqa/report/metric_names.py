"""What people call a score, for the pages; `scores.json` and the command line keep its name."""

from archqa.core.tables import read_mapping


def metric_label(name: str) -> str:
    """Return what people call a score; an unknown name with spaces for its underscores."""
    labels = read_mapping("report/data/metric_names.tsv")
    return labels.get(name, name.replace("_", " "))
