"""The entry point of the `archqa` command: prepared for Ctrl-C before anything slow is imported."""

import mmap
import os

from archqa.cli import interruption

_NEEDED_BYTES = 64 * 2**20
"""Memory without which a failure is taken for a lack of it: imports and threads fail in many ways."""

_NO_MEMORY = (
    "archqa: the memory of this machine, or the limit of this process, does not suffice.\n"
    "        Free some, or raise the limit (ulimit -v).\n"
)


def run() -> None:
    """Run the command line in a process of its own, and exit."""
    try:
        interruption.prepare_process()
        from archqa.cli.main import run as run_command

        run_command()
    except Exception as error:
        if not isinstance(error, MemoryError) and not _lacks_memory():
            raise
        os.write(2, _NO_MEMORY.encode())
        os._exit(interruption.FILE_CODE)


def _lacks_memory() -> bool:
    try:
        mmap.mmap(-1, _NEEDED_BYTES).close()
    except OSError:
        return True
    return False
