"""The examples in docs/cluster, checked as far as they can be without a cluster: against Ray's own schemas."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster
DOCS = Path(__file__).resolve().parents[3] / "docs"


def read(name: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="the extra ray is not installed")
    found = yaml.safe_load((DOCS / "cluster" / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_cluster_is_one_by_rays_own_schema_and_reports_nothing_to_its_makers() -> (
    None
):
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    import jsonschema

    schema = json.loads(
        (Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text()
    )
    cluster = read("ray-cluster.yaml")
    jsonschema.validate(cluster, schema)
    for commands in (
        cluster["head_start_ray_commands"],
        cluster["worker_start_ray_commands"],
    ):
        starts = [each for each in commands if "ray start" in each]
        assert starts
        assert all(each.startswith("RAY_USAGE_STATS_ENABLED=0 ") for each in starts)


def test_the_cluster_is_one_that_rays_launcher_takes() -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(read("ray-cluster.yaml"))
    validate_config(prepared)
    assert prepared["max_workers"] == 2


def test_the_model_server_is_one_by_ray_serves_own_schema() -> None:
    schema = pytest.importorskip(
        "ray.serve.schema", reason="ray[serve] is not installed", exc_type=ImportError
    )
    served = schema.ServeDeploySchema.model_validate(read("serve-vllm.yaml"))
    assert [each.route_prefix for each in served.applications] == ["/"]


def test_every_command_the_page_shows_is_one_archqa_has() -> None:
    from typer.testing import CliRunner

    from archqa.cli.main import app

    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    shown = {
        tuple(line.split()[1:3])
        for line in page.splitlines()
        if line.startswith("archqa ")
    }
    assert shown
    for words in shown:
        known = words if words[0] in {"batch", "fhir", "cache"} else words[:1]
        assert CliRunner().invoke(app, [*known, "--help"]).exit_code == 0, words
