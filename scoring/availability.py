"""Whether the heavy parts are here, asked without importing them and without the network."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def missing_packages(*packages: str) -> list[str]:
    """Those of the packages that cannot be imported here."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def find_local_model(*names: str) -> Path | None:
    """The folder of a model: the first name that is a folder, or its newest snapshot in the Hugging Face cache."""
    for name in names:
        snapshots = _hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
        complete = [folder for folder in snapshots.glob("*") if (folder / "config.json").exists()]
        if Path(name).is_dir() or complete:
            return (
                Path(name)
                if Path(name).is_dir()
                else max(complete, key=lambda folder: folder.stat().st_mtime)
            )
    return None


def missing_nltk_data(*places: str) -> str | None:
    """The first of the NLTK data places (`corpora/stopwords`, …) that is not here, or None."""
    import nltk

    for place in places:
        try:
            nltk.data.find(place)
        except LookupError:
            return place
    return None


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
