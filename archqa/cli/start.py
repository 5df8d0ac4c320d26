"""The entry point of the `archqa` command: prepared for Ctrl-C before anything slow is imported."""

from archqa.cli import interruption


def run() -> None:
    """Run the command line in a process of its own, and exit."""
    interruption.prepare_process()
    from archqa.cli.main import run as run_command

    run_command()
