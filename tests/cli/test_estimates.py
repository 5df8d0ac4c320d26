"""Estimates and spending limits of `predict` and `ablate`, as a user types them."""

import json
from pathlib import Path

from tests.cli.test_commands import archqa
from tests.fakes.server import FakeServer

PRICES = """
[prices.m]
prompt = 10.0
cached = 10.0
completion = 10.0
as_of = 2026-11-01
source = "a test"
"""


def test_a_dry_run_of_an_ablation_prices_all_variants_and_runs_none(
    tmp_path: Path,
) -> None:
    with FakeServer() as server:
        words = [
            "ablate",
            "mini",
            "--base-url",
            server.base_url,
            "--model",
            "gpt-4.1",
            "--dry-run",
        ]
        shown = archqa(*words, cwd=tmp_path)
        estimate = json.loads(archqa(*words, "--json", cwd=tmp_path).stdout)
        one = archqa("predict", *words[1:], "--json", cwd=tmp_path)
        assert server.count == 0
    assert shown.returncode == 0
    assert "Estimate for 3 cases, each in 8 variants" in shown.stdout
    assert "not verified" in shown.stdout
    assert estimate["variants"] == 8
    assert estimate["cached_calls"] > 0
    assert json.loads(one.stdout)["cost_usd"] < estimate["cost_usd"]
    assert not (tmp_path / "runs").exists()


def test_a_spending_limit_holds_over_all_variants_of_an_ablation(
    tmp_path: Path,
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    with FakeServer() as server:
        words = ["ablate", "mini", "--base-url", server.base_url, "--model", "m"]
        words += ["--out", "all", "--config", str(prices), "--json", "--jobs", "1"]
        stopped = archqa(*words, "--max-cost", "2", cwd=tmp_path)
        begun = sorted(folder.name for folder in (tmp_path / "all").iterdir())
        paid = server.count
        finished = archqa(*words, cwd=tmp_path)
        further = server.count - paid
        spent = sum(row["cost_usd"] for row in json.loads(finished.stdout))
    assert stopped.returncode == 4
    assert "The budget of $2.00 is spent" in stopped.stderr
    assert "run the same command again" in stopped.stderr
    assert "--resume" not in stopped.stderr
    assert 1 < len(begun) < 8, "one variant alone costs less, all of them more"
    assert finished.returncode == 0, finished.stderr
    assert further > 0
    assert spent > 2


def test_the_question_before_a_run_says_what_exceeds_the_limit(tmp_path: Path) -> None:
    with FakeServer() as server:
        words = ["predict", "mini", "--base-url", server.base_url, "--model", "gpt-4.1"]
        dry_run = archqa(*words, "--dry-run", "--max-cost", "0.01", cwd=tmp_path)
        run = archqa(*words, "--max-cost", "100", "--limit", "1", cwd=tmp_path)
    assert "expected cost is above --max-cost ($0.01)" in dry_run.stdout
    assert "--max-cost" not in run.stderr
    assert run.returncode == 0


def test_a_range_is_shown_where_conversations_are_estimated(tmp_path: Path) -> None:
    (tmp_path / "patient.ndjson").write_text('{"resourceType": "Patient", "id": "p"}\n')
    questions = tmp_path / "questions.csv"
    questions.write_text(
        "question_id,question,patient_fhir_id\nq,What is the gender?,p\n"
    )
    loaded = archqa(
        "fhir", "load", "patient.ndjson", "--into", "record.db", cwd=tmp_path
    )
    assert loaded.returncode == 0, loaded.stderr
    words = ["predict", str(questions), "--record", "record.db", "--model", "gpt-4.1"]
    words += [
        "--pipeline",
        "multi-turn-retriever-code",
        "--dry-run",
        "--max-cost",
        "0.1",
    ]
    shown = archqa(*words, cwd=tmp_path).stdout
    estimate = json.loads(archqa(*words, "--json", cwd=tmp_path).stdout)
    calls = [estimate[name]["calls"] for name in ("low", "expected", "high")]
    assert calls == [3, 6, 30]
    assert "expected (low to high)" in shown
    assert "AT LEAST" not in shown
    assert "within --max-cost ($0.1), the highest is not" in shown
