"""`python -m archqa`: the same as the command `archqa`."""

from archqa.cli.start import run

if __name__ == "__main__":
    run()
