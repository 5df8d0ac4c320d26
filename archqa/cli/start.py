"""The entry point of the `archqa` command: prepared for Ctrl-C before anything slow is imported."""

import os
import sys

from archqa.cli import interruption


def run() -> None:
    """Run the command line in a process of its own, and exit."""
    interruption.prepare_process()
    if "_ARCHQA_COMPLETE" in os.environ:  # A shell asks, and waits.
        from archqa.cli import completion

        sys.exit(completion.answer())
    from archqa.cli.main import run as run_command

    run_command()
