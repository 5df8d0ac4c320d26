"""Configuration, cases and helpers of the tests that train small networks."""

import copy
from typing import Any

from archqa.core.case import Case
from tests.engine.conftest import make_case
from tests.training.labelled_cases import labelled
from training import fine_tuning
from training.corpora import AuxiliaryCase, AuxiliaryCorpus
from training.fine_tuning import TrainingConfig

SMALL = {"layers": 2}
CONFIG = TrainingConfig(frozen_layers=1)
EVIDENCE = "Apixaban was stopped because of bleeding from the stomach."
IRRELEVANT = "She ate a regular diet and walked in the hall."


def anticoagulant_case(*sentences: str) -> Case:
    return make_case(sentences).model_copy(
        update={
            "clinician_question": "Why was the anticoagulant stopped?",
            "patient_narrative": "",
            "patient_question": (),
        }
    )


def small_corpus() -> AuxiliaryCorpus:
    question = AuxiliaryCase("new/1", *labelled(98))
    similar_case = AuxiliaryCase("new/2", *labelled(99))
    return AuxiliaryCorpus((question,), (similar_case,))


def packed_logits(network: Any, case: Case) -> Any:
    """The logits of the network when its layers have the weights of its file."""
    packed = copy.deepcopy(network).eval()
    for layer in fine_tuning.linear_layers(packed):
        layer.weight.data = fine_tuning.quantise_layer(layer.weight)
    return fine_tuning.logits(packed, case)
