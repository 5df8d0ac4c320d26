"""Check for optional packages, models and data without importing them and without the network."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def missing_packages(*packages: str) -> list[str]:
    """The packages that cannot be imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def find_local_model(*names: str) -> Path | None:
    """The folder of a model, or None.

    A name is a folder or a model in the Hugging Face cache, whose newest snapshot is used.
    """
    for name in names:
        if Path(name).is_dir():
            return Path(name)
        if snapshot := _newest_snapshot(name):
            return snapshot
    return None


def missing_nltk_data(*resources: str) -> str | None:
    """The first of the NLTK resources (`corpora/stopwords`, …) that is not installed, or None."""
    import nltk

    for resource in resources:
        try:
            nltk.data.find(resource)
        except LookupError:
            return resource
    return None


def _newest_snapshot(name: str) -> Path | None:
    snapshots = _hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    complete = [folder for folder in snapshots.glob("*") if (folder / "config.json").exists()]
    return max(complete, key=_modification_time, default=None)


def _modification_time(folder: Path) -> float:
    return folder.stat().st_mtime


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
