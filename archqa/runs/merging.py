"""Merges runs of parts of one case file (`--shard`) into the run they would have been."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from archqa import tasks
from archqa.core.id_lists import list_ids
from archqa.core.question import Item
from archqa.errors import CallerError, InputError
from archqa.runs.folder import RunFolder, case_file_name, check_not_locked, new_run_name
from archqa.runs.open_run import created_folder, manifest_differences, removed_on_failure
from archqa.runs.record import RunManifest, RunStatus
from archqa.runs.run import Run, write_cases
from archqa.safety.files import private_draft, storage_errors

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
    missing = _missing_case_ids(parts, case_ids)
    if missing and not partial:
        raise CallerError(
            f"{len(missing)} of {len(case_ids)} cases are missing: {list_ids(missing)}.\n"
            "Name the runs that have them, finish those that stopped with --resume, "
            "or merge what is there: --partial"
        )
    owners_in_file_order = {}
    for case_id in case_ids:
        if case_id in owners:
            owners_in_file_order[case_id] = owners[case_id]
    return _write(parts, owners_in_file_order, out, complete=not missing)


def _missing_case_ids(parts: Sequence[Run], case_ids: Sequence[str]) -> list[str]:
    completed: set[str] = set()
    for part in parts:
        completed.update(part.folder.records())
    return [case_id for case_id in case_ids if case_id not in completed]


def _check_same_kind(parts: Sequence[Run]) -> None:
    """Raise `CallerError` unless all parts have the same data, settings, prompts and version."""
    for part in parts[1:]:
        differences = _differences(parts[0].manifest, part.manifest)
        if differences:
            raise CallerError(
                f"{parts[0].path} and {part.path} are not parts of one run: "
                f"{list_ids(differences)} differ.\n"
                "Merge runs of one case file that were made in the same way."
            )


def _differences(reference: RunManifest, manifest: RunManifest) -> list[str]:
    differences = manifest_differences(reference, manifest)
    if "case_ids" in differences:
        differences.remove("case_ids")
    if reference.versions.get("archqa") != manifest.versions.get("archqa"):
        differences.append("archqa's version")
    return differences


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
        raise InputError(path, [": is not the file the runs read (its sha256 differs)."], fix)
    return file.ids


def _write(parts: Sequence[Run], owners: Owners, out: Path | None, *, complete: bool) -> Run:
    manifests = [part.manifest for part in parts]
    manifest = _merged_manifest(manifests, tuple(owners), complete=complete)
    path = out or Path("runs") / manifest.run
    with created_folder(path) as (folder, _), removed_on_failure(folder):
        write_cases(folder, manifest.task, _cases(parts, owners))
        folder.write_lines("cases.jsonl", _record_lines(parts, owners))
        for case_id, owner in owners.items():
            _copy_trace(owner.folder, folder, case_id)
        # The manifest comes late: a folder without one is no run.
        folder.write_manifest(manifest)
        run = Run(folder)
        run.write_submission()
        run.write_task_files()
    return run


def _merged_manifest(
    parts: Sequence[RunManifest], case_ids: tuple[str, ...], *, complete: bool
) -> RunManifest:
    """Return the manifest of `parts[0]` with the cases, times and seconds of all parts."""
    now = datetime.now(UTC)
    status = RunStatus.FINISHED if complete else RunStatus.STOPPED
    destinations: dict[str, None] = {}
    for part in parts:
        destinations.update(dict.fromkeys(part.destinations))
    changes = {
        "run": new_run_name(now, parts[0].task, parts[0].pipeline),
        "status": status,
        "started_at": min(part.started_at for part in parts),
        "ended_at": max(part.ended_at or now for part in parts),
        "case_ids": case_ids,
        "destinations": tuple(destinations),
        "seconds": sum(part.seconds for part in parts),
    }
    return parts[0].model_copy(update=changes)


def _cases(parts: Sequence[Run], owners: Owners) -> Iterator[Item]:
    """Yield the cases, read one at a time from the runs that have them."""
    cases_by_path = {}
    positions: dict[str, int] = {}
    for part in parts:
        cases_by_path[part.path] = part.cases
        for position, case_id in enumerate(part.manifest.case_ids):
            positions[case_id] = position
    for case_id, owner in owners.items():
        cases = cases_by_path[owner.path]
        yield cases[positions[case_id]]


def _record_lines(parts: Sequence[Run], owners: Owners) -> Iterator[str]:
    records_by_path = {part.path: part.folder.records() for part in parts}
    for case_id, owner in owners.items():
        record = records_by_path[owner.path].get(case_id)
        if record is not None:
            yield record.model_dump_json()


def _copy_trace(source: RunFolder, target: RunFolder, case_id: str) -> None:
    name = f"trace/{case_file_name(case_id)}.jsonl"
    source_file = source.path / name
    if source_file.is_file():
        target_file = target.path / name
        with (
            storage_errors(target_file),
            source_file.open("rb") as trace,
            private_draft(target_file) as copy,
        ):
            shutil.copyfileobj(trace, copy)
