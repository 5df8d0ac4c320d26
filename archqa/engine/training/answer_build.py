"""Makes the answer finder's files: trains its network, exports it and calibrates it."""

from pathlib import Path
from typing import Any

from archqa.engine import DATA_DIR
from archqa.engine.answer_finder import NETWORK_FILE, SETTINGS_FILE, AnswerFinderSettings
from archqa.engine.answer_windows import MAX_WINDOW_TOKENS
from archqa.engine.cross_encoder import CROSS_ENCODER_FILE, CrossEncoder
from archqa.engine.training import answer_calibration, answer_training, fine_tuning
from archqa.engine.training.asked_corpus import AskedQuestion
from archqa.engine.training.fine_tuning import TrainingConfig
from archqa.engine.training.regression import ProgressCallback
from archqa.notes.sentences import case_from_text
from archqa.safety.private_files import write_private_text

SPECIAL_POSITIONS = 2
"""Positions beyond the longest window that the network's table keeps."""


def build_answer_finder(
    questions: tuple[AskedQuestion, ...],
    held_out: tuple[AskedQuestion, ...],
    config: TrainingConfig,
    progress: ProgressCallback,
) -> AnswerFinderSettings:
    """Train, write the files, calibrate on the questions held out and return the settings."""
    network = answer_training.drop_layers(fine_tuning.load_default_network(config))
    network = answer_training.train_answer_finder(network, questions, config, progress=progress)
    export_answer_finder(network)
    return calibrate_answer_finder(held_out)


def export_answer_finder(network: Any, folder: Path = DATA_DIR) -> None:
    """Write the network's files; weights that the cross-encoder's file has are not written again."""
    network.encoder.limit_length(MAX_WINDOW_TOKENS + SPECIAL_POSITIONS)
    example = case_from_text("Why was she treated?", "She came with a fever. She went home.")
    shared_weights = CROSS_ENCODER_FILE.with_suffix(".npz")
    fine_tuning.export(network, folder / NETWORK_FILE.name, example, shared_weights)


def calibrate_answer_finder(held_out: tuple[AskedQuestion, ...]) -> AnswerFinderSettings:
    """Calibrate the shipped network on questions it was not trained on, and write the settings."""
    cross_encoder = CrossEncoder(NETWORK_FILE)
    scored = list(answer_calibration.score_questions(cross_encoder, held_out))
    notes = {question.note for question in held_out}
    provenance = (
        f"fitted on {len(held_out)} questions about {len(notes)} notes that the network was not "
        "trained on"
    )
    settings = answer_calibration.calibrate(scored, provenance)
    write_private_text(SETTINGS_FILE, settings.model_dump_json(indent=1) + "\n")
    return settings
