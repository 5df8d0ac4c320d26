"""Runs of parts of one case file, made by hand with `--shard`, as the one run they would have been."""

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

_TOLD = 5
"""Case ids named in one message."""

Owners = Mapping[str, Run]
"""Case id to the run that has it."""


def merge(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    data: Path | None = None,
    partial: bool = False,
) -> Run:
    """The runs in these folders as one, in the order of their case file; what lies in them stays as it is.

    `out` is the folder of the merged run, by default a new one under `runs/`. `data` is the case file, where it is no
    longer at the place the runs read it from. With `partial`, cases may be missing. Raises `CallerError` for runs that
    are not parts of one, `InputError` for a case file that is not theirs.
    """
    parts = [Run.open(path) for path in paths]
    _check_alike(parts)
    owners = _owners(parts)
    ids = _ids_of(parts[0].manifest, data)
    ended = {each for part in parts for each in part.folder.records()}
    missing = [each for each in ids if each not in ended]
    if missing and not partial:
        raise CallerError(
            f"{len(missing)} of {len(ids)} cases are missing: {_some(missing)}.\n"
            "Name the runs that have them, finish those that stopped with --resume, or merge what is there: --partial"
        )
    return _write(
        parts, {each: owners[each] for each in ids if each in owners}, out, whole=not missing
    )


def _check_alike(parts: Sequence[Run]) -> None:
    """Raise unless all were made of the same data, in the same way."""
    first = parts[0].manifest
    for each in parts[1:]:
        found = [name for name in manifest_differences(first, each.manifest) if name != "case_ids"]
        if first.versions.get("archqa") != each.manifest.versions.get("archqa"):
            found.append("archqa's version")
        if found:
            raise CallerError(
                f"{parts[0].path} and {each.path} are not parts of one run: {', '.join(found)} differ.\n"
                "Merge runs of one case file that were made in the same way."
            )


def _owners(parts: Sequence[Run]) -> dict[str, Run]:
    """Which run has which case. Raises `CallerError` if two have the same."""
    owners: dict[str, Run] = {}
    for part in parts:
        twice = [each for each in part.manifest.case_ids if each in owners]
        if twice:
            raise CallerError(
                f"{owners[twice[0]].path} and {part.path} both have {len(twice)} cases: {_some(twice)}.\n"
                "Parts have no case in common; name each once."
            )
        owners.update(dict.fromkeys(part.manifest.case_ids, part))
    return owners


def _ids_of(manifest: RunManifest, data: Path | None) -> tuple[str, ...]:
    """All ids of the case file, in its order. Raises `InputError` if the file is absent or another."""
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


def _write(parts: Sequence[Run], owners: Owners, out: Path | None, *, whole: bool) -> Run:
    manifest = _manifest([each.manifest for each in parts], tuple(owners), whole=whole)
    folder = RunFolder.create(out or Path("runs") / manifest.run)
    folder.write_manifest(manifest)
    write_cases(folder, parts[0].manifest.task, _items(parts, owners))
    folder.write_lines("cases.jsonl", _records(parts, owners))
    for case_id, owner in owners.items():
        _copy_trace(owner.folder, folder, case_id)
    run = Run(folder)
    run.write_submission()
    run.write_task_files()
    return run


def _manifest(parts: Sequence[RunManifest], ids: tuple[str, ...], *, whole: bool) -> RunManifest:
    """The first one's, with the times of all: from the first start to the last end, and the seconds added up."""
    now = datetime.now(UTC)
    return parts[0].model_copy(
        update={
            "run": new_run_name(now, parts[0].task, parts[0].pipeline),
            "status": RunStatus.FINISHED if whole else RunStatus.STOPPED,
            "started_at": min(each.started_at for each in parts),
            "ended_at": max(each.ended_at or now for each in parts),
            "case_ids": ids,
            "seconds": sum(each.seconds for each in parts),
        }
    )


def _items(parts: Sequence[Run], owners: Owners) -> Iterator[Item]:
    """The cases, read one at a time from the runs that have them."""
    cases = {id(part): part.cases for part in parts}
    places = {each: place for part in parts for place, each in enumerate(part.manifest.case_ids)}
    return (cases[id(owner)][places[each]] for each, owner in owners.items())


def _records(parts: Sequence[Run], owners: Owners) -> Iterator[str]:
    records = {id(part): part.folder.records() for part in parts}
    for each, owner in owners.items():
        if each in records[id(owner)]:
            yield records[id(owner)][each].model_dump_json()


def _copy_trace(source: RunFolder, target: RunFolder, case_id: str) -> None:
    name = f"trace/{case_file_name(case_id)}.jsonl"
    if (source.path / name).is_file():
        shutil.copyfile(source.path / name, target.path / name)
        (target.path / name).chmod(0o600)


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _TOLD} more" if len(ids) > _TOLD else ""
    return f"{', '.join(ids[:_TOLD])}{more}"
