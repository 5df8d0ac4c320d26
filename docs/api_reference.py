"""The page of the Python interface: every public name, from the docstrings."""

import archqa
import archqa.fhir
import scoring

INTRODUCTION = """\
# Python

The public names, from their docstrings; the how-to pages show them at work.
"""


def page() -> str:
    """Return the Markdown of the page, whose `:::` lines mkdocstrings fills."""
    return INTRODUCTION + "".join(
        [
            "\n## archqa\n",
            *(
                _entry(f"archqa.{name}", *place)
                for name, place in sorted(archqa._PUBLIC.items())
            ),
            "\n## archqa.fhir\n",
            *_names_of(archqa.fhir),
            "\n## scoring\n",
            *_names_of(scoring),
        ]
    )


def _names_of(package):
    shown = package.__name__
    for name in sorted(package.__all__):
        value = getattr(package, name)
        module = getattr(value, "__module__", shown)
        yield _entry(
            f"{shown}.{name}", module if module.startswith(shown) else shown, name
        )


def _entry(shown, module, name):
    return f"\n::: {module}.{name}\n    options:\n      heading: {shown}\n      toc_label: {shown}\n"
