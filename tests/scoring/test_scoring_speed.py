"""What scoring costs: the organisers' loop takes 10 s for 100 cases."""

import subprocess
import sys

from rouge_score.rouge_scorer import RougeScorer

from scoring.rouge import module_deferring
from tests.benchmarks.scoring_speed import COLD, REPOSITORY, least_printed

AFTER_SCORING = """
import sys
from tests.benchmarks.scoring_speed import cold_seconds
cold_seconds(1)
print(*sorted({"nltk", "sklearn", "scipy", "pandas", "absl"} & sys.modules.keys()))
"""


def test_100_cases_take_less_than_one_and_a_half_seconds_of_processor_with_all_imports() -> (
    None
):
    # One measurement of five, since other work on the machine slows the processor too.
    code = COLD.format(cases=100)
    assert any(least_printed(code, rounds=1) < 1.5 for _ in range(5))


def test_scoring_does_not_import_what_rouge_score_uses_only_elsewhere() -> None:
    command = [sys.executable, "-c", AFTER_SCORING]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_module_with_deferred_imports_computes_what_the_module_itself_does() -> None:
    deferred = ("nltk", "absl.logging", "rouge_score.tokenizers")
    library = module_deferring("rouge_score.rouge_scorer", deferred)
    assert library.nltk is not sys.modules.get("nltk")
    texts = ("Stones were found and removed.", "A stone was found.")
    stemmed = library.RougeScorer(["rouge1"], use_stemmer=True).score(*texts)
    assert stemmed == RougeScorer(["rouge1"], use_stemmer=True).score(*texts)
    assert stemmed != library.RougeScorer(["rouge1"]).score(*texts)
