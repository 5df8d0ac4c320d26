"""`python -m training`: the commands that fit the embedded engine."""

from training.cli import run

if __name__ == "__main__":
    run()
