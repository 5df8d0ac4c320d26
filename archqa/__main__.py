"""`python -m archqa`: the same as the command `archqa`."""

from archqa.cli.main import run

if __name__ == "__main__":
    run()
