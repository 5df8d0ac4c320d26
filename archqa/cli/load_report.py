"""What a load did, as `archqa fhir load` and `archqa fhir export` print it."""

from pathlib import Path

from archqa import fhir
from archqa.cli.console import console


def print_load_report(report: fhir.LoadReport, into: Path) -> None:
    """Print what a load did on stdout."""
    changes = f"{report.added} added, {report.replaced} replaced, {report.unchanged} unchanged"
    console.print(f"{into}: {changes}")
    counts = ", ".join(f"{count} {name}" for name, count in report.by_type.items())
    files = f"{report.files} files: {counts or 'nothing'}"
    if report.checksums:
        files += f"; {report.checksums} checksums are right"
    console.print(files)
    console.print(f"{report.stored} resources in the record")
    if report.unresolved:
        text = "urn:uuid: that resources refer to are of no resource in the record"
        console.print(f"{report.unresolved} {text}")
    if report.unindexed:
        text = "references by urn:uuid: are not indexed: searches do not find them"
        console.print(f"{report.unindexed} {text}")
    if report.conditional:
        text = "conditional references (Type?identifier=…) do not fit exactly one resource"
        console.print(f"{report.conditional} {text}")
    if report.without_resource:
        text = "entries of Bundles hold no resource: requests and responses are not carried out"
        console.print(f"{report.without_resource} {text}")
    if report.bad:
        console.print(f"{report.bad} malformed, left out")
