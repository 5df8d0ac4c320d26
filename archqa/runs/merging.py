"""Merges runs of parts of one case file (`--shard`) into the run they would have been."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from archqa import tasks
from archqa.core.question import Item
from archqa.errors import CallerError, InputError
from archqa.runs.folder import RunFolder, case_file_name, new_run_name
from archqa.runs.open_run import manifest_differences
from archqa.runs.record import RunManifest, RunStatus
from archqa.runs.run import Run, write_cases

_MAX_IDS_SHOWN = 5
"""Case ids that one message names."""

Owners = Mapping[str, Run]
"""Case id to the run that has it."""


def merge(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    data: Path | None = None,
    partial: bool = False,
) -> Run:
    """Merge the runs in these folders, in the order of their case file; the folders stay as they are.

    `out` is the folder of the merged run, by default a new one under `runs/`. `data` is the case file if it has moved
    since the runs read it. With `partial`, cases may be missing. Raises `CallerError` for runs that are not parts of
    one, `InputError` for a case file that is not theirs.
    """
    parts = [Run.open(path) for path in paths]
    _check_same_kind(parts)
    owners = _owners(parts)
    case_ids = _all_case_ids(parts[0].manifest, data)
    completed = {case_id for part in parts for case_id in part.folder.records()}
    missing = [case_id for case_id in case_ids if case_id not in completed]
    if missing and not partial:
        raise CallerError(
            f"{len(missing)} of {len(case_ids)} cases are missing: {_shortened(missing)}.\n"
            "Name the runs that have them, finish those that stopped with --resume, or merge what is there: --partial"
        )
    in_file_order = {case_id: owners[case_id] for case_id in case_ids if case_id in owners}
    return _write(parts, in_file_order, out, complete=not missing)


def _check_same_kind(parts: Sequence[Run]) -> None:
    """Raise `CallerError` unless all parts have the same data, settings, pipeline, prompts and version."""
    reference = parts[0].manifest
    for part in parts[1:]:
        differences = manifest_differences(reference, part.manifest)
        differences = [name for name in differences if name != "case_ids"]
        if reference.versions.get("archqa") != part.manifest.versions.get("archqa"):
            differences.append("archqa's version")
        if differences:
            raise CallerError(
                f"{parts[0].path} and {part.path} are not parts of one run: {', '.join(differences)} differ.\n"
                "Merge runs of one case file that were made in the same way."
            )


def _owners(parts: Sequence[Run]) -> dict[str, Run]:
    """The run that has each case. Raises `CallerError` if two runs have the same case."""
    owners: dict[str, Run] = {}
    for part in parts:
        duplicates = [case_id for case_id in part.manifest.case_ids if case_id in owners]
        if duplicates:
            raise CallerError(
                f"{owners[duplicates[0]].path} and {part.path} both have {len(duplicates)} cases: "
                f"{_shortened(duplicates)}.\nParts have no case in common; name each once."
            )
        owners.update(dict.fromkeys(part.manifest.case_ids, part))
    return owners


def _all_case_ids(manifest: RunManifest, data: Path | None) -> tuple[str, ...]:
    """All ids of the case file, in its order. Raises `InputError` if the file is absent or has changed."""
    path = data or Path(manifest.data.path)
    fix = "Name the case file of these runs with --data."
    if manifest.data.path == "-" and data is None:
        raise CallerError(
            f"The runs read their cases from standard input, so their order is not known.\n{fix}"
        )
    if not path.is_file():
        raise InputError(path, [": the case file is not there."], fix)
    file = tasks.load_cases(path, manifest.task)
    if file.sha256 != manifest.data.sha256:
        raise InputError(path, [": is not the file the runs read (its sha256 differs)."], fix)
    return file.ids


def _write(parts: Sequence[Run], owners: Owners, out: Path | None, *, complete: bool) -> Run:
    manifests = [part.manifest for part in parts]
    manifest = _merged_manifest(manifests, tuple(owners), complete=complete)
    folder = RunFolder.create(out or Path("runs") / manifest.run)
    folder.write_manifest(manifest)
    write_cases(folder, manifest.task, _cases(parts, owners))
    folder.write_lines("cases.jsonl", _record_lines(parts, owners))
    for case_id, owner in owners.items():
        _copy_trace(owner.folder, folder, case_id)
    run = Run(folder)
    run.write_submission()
    run.write_task_files()
    return run


def _merged_manifest(
    parts: Sequence[RunManifest], case_ids: tuple[str, ...], *, complete: bool
) -> RunManifest:
    """The manifest of the first part, from the earliest start to the latest end, with all seconds added up."""
    now = datetime.now(UTC)
    return parts[0].model_copy(
        update={
            "run": new_run_name(now, parts[0].task, parts[0].pipeline),
            "status": RunStatus.FINISHED if complete else RunStatus.STOPPED,
            "started_at": min(part.started_at for part in parts),
            "ended_at": max(part.ended_at or now for part in parts),
            "case_ids": case_ids,
            "seconds": sum(part.seconds for part in parts),
        }
    )


def _cases(parts: Sequence[Run], owners: Owners) -> Iterator[Item]:
    """The cases, read one at a time from the runs that have them."""
    cases = {id(part): part.cases for part in parts}
    positions: dict[str, int] = {}
    for part in parts:
        for position, case_id in enumerate(part.manifest.case_ids):
            positions[case_id] = position
    for case_id, owner in owners.items():
        yield cases[id(owner)][positions[case_id]]


def _record_lines(parts: Sequence[Run], owners: Owners) -> Iterator[str]:
    records = {id(part): part.folder.records() for part in parts}
    for case_id, owner in owners.items():
        record = records[id(owner)].get(case_id)
        if record is not None:
            yield record.model_dump_json()


def _copy_trace(source: RunFolder, target: RunFolder, case_id: str) -> None:
    name = f"trace/{case_file_name(case_id)}.jsonl"
    if (source.path / name).is_file():
        shutil.copyfile(source.path / name, target.path / name)
        (target.path / name).chmod(0o600)


def _shortened(case_ids: Sequence[str]) -> str:
    shown = ", ".join(case_ids[:_MAX_IDS_SHOWN])
    hidden = len(case_ids) - _MAX_IDS_SHOWN
    return f"{shown} and {hidden} more" if hidden > 0 else shown
