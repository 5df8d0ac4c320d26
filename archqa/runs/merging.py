"""Merges runs of parts of one case file (`--shard`) into the run they would have been."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from archqa import tasks
from archqa.core.id_lists import list_ids
from archqa.errors import CallerError, InputError
from archqa.runs.folder import RunFolder, check_not_locked, new_run_name, trace_name
from archqa.runs.open_run import (
    created_folder,
    manifest_differences,
    removed_on_failure,
)
from archqa.runs.record import RunManifest, RunStatus
from archqa.runs.run import Run, write_cases
from archqa.safety.files import private_draft, storage_errors


def merge(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    data: Path | None = None,
    partial: bool = False,
) -> Run:
    """Merge the runs in these folders, in the order of their case file; change no folder.

    `out` is the folder of the merged run, by default a new one under `runs/`. `data` is the case
    file if it has moved since the runs read it. With `partial`, cases may be missing. Raises
    `CallerError` for runs that are not parts of one, `RunLocked` for one that is still running,
    `InputError` for a case file that is not theirs.
    """
    parts = [Run.open(path) for path in paths]
    for part in parts:
        check_not_locked(part.path)
    _check_same_kind(parts)
    owners = _owners(parts)
    case_ids = _all_case_ids(parts[0].manifest, data)
    ended: set[str] = set()
    for part in parts:
        ended.update(part.folder.records())
    missing = [case_id for case_id in case_ids if case_id not in ended]
    if missing and not partial:
        raise CallerError(
            f"{len(missing)} of {len(case_ids)} cases are missing: {list_ids(missing)}.\n"
            "Name the runs that have them, finish those that stopped with --resume, "
            "or merge what is there: --partial"
        )
    in_file_order = {
        case_id: owners[case_id] for case_id in case_ids if case_id in owners
    }
    manifest = _merged_manifest(parts, tuple(in_file_order), complete=not missing)
    path = out or Path("runs") / manifest.run
    with created_folder(path) as (folder, _), removed_on_failure(folder):
        _fill(folder, manifest, parts, in_file_order)
        run = Run(folder)
        run.write_submission()
        run.write_task_files()
    return run


def _check_same_kind(parts: Sequence[Run]) -> None:
    """Raise `CallerError` unless all parts have the same data, settings, prompts and version."""
    reference = parts[0].manifest
    for part in parts[1:]:
        differences = manifest_differences(reference, part.manifest)
        if "case_ids" in differences:
            differences.remove("case_ids")
        if reference.versions.get("archqa") != part.manifest.versions.get("archqa"):
            differences.append("archqa's version")
        if differences:
            raise CallerError(
                f"{parts[0].path} and {part.path} are not parts of one run: "
                f"{list_ids(differences)} differ.\n"
                "Merge runs of one case file that were made in the same way."
            )


def _owners(parts: Sequence[Run]) -> dict[str, Run]:
    """Return the run that has each case. Raises `CallerError` if two runs have the same case."""
    owners: dict[str, Run] = {}
    for part in parts:
        case_ids = part.manifest.case_ids
        duplicates = [case_id for case_id in case_ids if case_id in owners]
        if duplicates:
            owner = owners[duplicates[0]]
            raise CallerError(
                f"{owner.path} and {part.path} both have {len(duplicates)} cases: "
                f"{list_ids(duplicates)}.\nParts have no case in common; name each once."
            )
        owners.update(dict.fromkeys(case_ids, part))
    return owners


def _all_case_ids(manifest: RunManifest, data: Path | None) -> tuple[str, ...]:
    """Return all ids of the case file, in its order.

    Raises `InputError` if the file is absent or has changed.
    """
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
        raise InputError(
            path, [": is not the file the runs read (its sha256 differs)."], fix
        )
    return file.ids


def _merged_manifest(
    parts: Sequence[Run], case_ids: tuple[str, ...], *, complete: bool
) -> RunManifest:
    """Return the manifest of `parts[0]` with the cases, times and seconds of all parts."""
    now = datetime.now(UTC)
    merged, *others = manifests = [part.manifest for part in parts]
    for manifest in others:
        merged = merged.with_destinations(manifest.destinations)
    changes = {
        "run": new_run_name(now, merged.task, merged.pipeline),
        "status": RunStatus.FINISHED if complete else RunStatus.STOPPED,
        "started_at": min(manifest.started_at for manifest in manifests),
        "ended_at": max(manifest.ended_at or now for manifest in manifests),
        "case_ids": case_ids,
        "seconds": sum(manifest.seconds for manifest in manifests),
    }
    return merged.model_copy(update=changes)


def _fill(
    folder: RunFolder,
    manifest: RunManifest,
    parts: Sequence[Run],
    owners: Mapping[str, Run],
) -> None:
    """Copy cases, records and traces, one at a time, from the runs that have them."""
    positions: dict[str, int] = {}
    for part in parts:
        for position, case_id in enumerate(part.manifest.case_ids):
            positions[case_id] = position
    cases = (owner.cases[positions[case_id]] for case_id, owner in owners.items())
    write_cases(folder, manifest.task, cases)
    records = (owner.get_record(case_id) for case_id, owner in owners.items())
    lines = (record.model_dump_json() for record in records if record is not None)
    folder.write_lines("cases.jsonl", lines)
    for case_id, owner in owners.items():
        source, target = (
            owner.path / trace_name(case_id),
            folder.path / trace_name(case_id),
        )
        if source.is_file():
            with (
                storage_errors(target),
                source.open("rb") as trace,
                private_draft(target) as copy,
            ):
                shutil.copyfileobj(trace, copy)
    # The manifest comes late: a folder without one is no run.
    folder.write_manifest(manifest)
