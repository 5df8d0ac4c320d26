"""Training of the answer finder on short questions: its network, then its calibration.

The network starts from the shipped cross-encoder, less two of its layers. Its loss is that of
reading comprehension with unanswerable questions (Rajpurkar et al. 2018, arXiv:1806.03822; Devlin et
al. 2019, section 4.3): a softmax over the sentences of a window and over "no answer here", whose
logit is 0. A cross-entropy of each sentence is added, so that a sentence's logit means the same
in every window.

The calibration fits how likely a note answers at all, and sets the threshold of answering, on
questions about notes that the network was not trained on.
"""

import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from archqa.core.case import Case, Sentence
from archqa.engine import DATA_DIR
from archqa.engine.answer_finder import (
    MAX_WINDOW_TOKENS,
    NETWORK_FILE,
    SETTINGS_FILE,
    AnswerFinderSettings,
    JudgementWeights,
    Piece,
    build_answer_windows,
    judge_sentences,
    sentence_logits,
    sentence_pieces,
)
from archqa.engine.encoders import CROSS_ENCODER_FILE, CrossEncoder
from archqa.engine.windows import TokenWindow
from archqa.notes.assertion import read_passages
from archqa.notes.focus import question_focus
from archqa.notes.non_evidence import non_evidence_indices
from archqa.notes.sentences import case_from_text
from archqa.safety.files import write_private_text
from archqa.terminology.words import stems
from training import export, fine_tuning, loading
from training.corpora import ShortQuestion
from training.fine_tuning import TrainingConfig
from training.network import CrossEncoderNetwork, add_low_rank_updates
from training.regression import ProgressCallback, fit_logistic

DROPPED_LAYERS = (7, 10)
"""Layers, from 0, whose removal changed the first rank of 60 training questions least; without them
a note of 3,500 characters takes a sixth less time."""
SPECIAL_POSITIONS = 2
"""Positions beyond the longest window that the network's table keeps."""
WINDOW_TOKENS = (192, 256, 320, 320)
"""Sizes that windows are drawn from, so that the network depends on none; 320 is the shipped one's."""
MAX_ANSWERING_WINDOWS = 3
OTHER_WINDOWS = 1
"""Windows of a question without a sentence that answers or tempts."""
EASY_QUESTION_PROBABILITY = 0.12
"""How often a question is also asked of another note, which does not answer it."""
PLAIN_QUESTION_PROBABILITY = 0.15
"""How often a question loses its question mark, as people leave it out."""
SENTENCE_LOSS_WEIGHT = 0.15
HEAD_RATE_FACTOR = 1
CONFIG = TrainingConfig(epochs=3, learning_rate=6e-4, batch_size=12)

ANSWERED_SHARE = 0.955
"""The share of answerable questions, of notes held out, that the threshold lets through: chosen on
the set of `archqa evaluate ask`, to answer at least 92 % there."""
MARGIN, MAX_SELECTED = 1.0, 3
"""Which sentences next to the best are selected: the highest mean of the F1 of the evidence on the
questions held out and on the set of `archqa evaluate ask`."""
RIDGE = 0.5


class AnswerWindow(NamedTuple):
    """A window; `groups` and `answering` count its spans.

    In each group one span suffices. `certain` are the spans whose own label is known: of a long
    sentence that answers, it is not known which piece does.
    """

    window: TokenWindow
    groups: tuple[tuple[int, ...], ...]
    answering: frozenset[int]
    certain: tuple[int, ...]


class ScoredQuestion(NamedTuple):
    """A question and the logit of every sentence of its note."""

    question: ShortQuestion
    logits: NDArray[np.float64]


def build_answer_finder(
    questions: tuple[ShortQuestion, ...],
    calibration_questions: tuple[ShortQuestion, ...],
    config: TrainingConfig,
    progress: ProgressCallback,
) -> AnswerFinderSettings:
    """Train, write the engine's files, calibrate, and return the settings."""
    network = drop_layers(loading.load_network(config))
    network = train_network(network, questions, config, progress=progress)
    export_network(network)
    scored = list(score_questions(CrossEncoder(NETWORK_FILE), calibration_questions))
    notes = {question.note for question in calibration_questions}
    shipped = AnswerFinderSettings.model_validate_json(SETTINGS_FILE.read_bytes())
    settings = calibrate(
        scored,
        shipped.judgement,
        f"fitted on {len(scored)} questions about {len(notes)} notes that the network was not "
        "trained on",
    )
    write_private_text(SETTINGS_FILE, settings.model_dump_json(indent=1) + "\n")
    return settings


def drop_layers(network: CrossEncoderNetwork) -> CrossEncoderNetwork:
    """Remove `DROPPED_LAYERS` from a network of twelve."""
    layers = network.encoder.layers
    remaining = [
        layer for index, layer in enumerate(layers) if index not in DROPPED_LAYERS
    ]
    network.encoder.layers = type(layers)(remaining)
    return network


def train_network(
    network: CrossEncoderNetwork,
    questions: tuple[ShortQuestion, ...],
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> CrossEncoderNetwork:
    """Train updates of the network's upper layers, on a GPU where there is one, and return it."""
    torch.manual_seed(config.seed)
    random.seed(config.seed)
    add_low_rank_updates(network.encoder.layers)
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    optimizer = fine_tuning.new_optimizer(network, config, HEAD_RATE_FACTOR)
    for epoch in range(config.epochs):
        batches = fine_tuning.make_batches(_epoch_windows(questions), config.batch_size)
        for batch_index, batch in enumerate(batches):
            done = (epoch + batch_index / len(batches)) / config.epochs
            fine_tuning.set_learning_rate(optimizer, config, done)
            fine_tuning.training_step(
                network, optimizer, partial(batch_loss, network, batch)
            )
            stage = f"epoch {epoch + 1} of {config.epochs}, batches"
            progress(stage, batch_index + 1, len(batches))
    return network.cpu().eval()


def _epoch_windows(questions: tuple[ShortQuestion, ...]) -> list[AnswerWindow]:
    windows: list[AnswerWindow] = []
    for question in random.sample(questions, len(questions)):
        windows += sample_windows(question, random.choice(WINDOW_TOKENS))
        if random.random() < EASY_QUESTION_PROBABILITY:
            other = random.choice(questions)
            if _is_unrelated(question, other):
                unanswered = other._replace(
                    question=question.question, groups=(), tempting=()
                )
                windows += sample_windows(unanswered, random.choice(WINDOW_TOKENS))[:1]
    return windows


def _is_unrelated(question: ShortQuestion, other: ShortQuestion) -> bool:
    """Whether the other note shares no word of content with the question."""
    shared = set(stems(question.question)) & set(stems(" ".join(other.sentences)))
    return question.note != other.note and not shared


def sample_windows(question: ShortQuestion, max_tokens: int) -> list[AnswerWindow]:
    """Return the windows that have an answer or a temptation, and one or two of the others."""
    text = question.question
    if random.random() < PLAIN_QUESTION_PROBABILITY:
        text = text.rstrip("?. ")
    pieces = sentence_pieces(list(question.sentences))
    deciding = question.answering or frozenset(question.tempting)
    with_deciding: list[AnswerWindow] = []
    others: list[AnswerWindow] = []
    for window in build_answer_windows(text, pieces, max_tokens):
        sentences = {
            pieces[span.sentence_index].sentence_index for span in window.spans
        }
        side = with_deciding if deciding & sentences else others
        side.append(_answer_window(window, pieces, question))
    other_count = OTHER_WINDOWS if with_deciding else 2 * OTHER_WINDOWS
    sampled = random.sample(others, min(other_count, len(others)))
    return with_deciding[:MAX_ANSWERING_WINDOWS] + sampled


def _answer_window(
    window: TokenWindow, pieces: list[Piece], question: ShortQuestion
) -> AnswerWindow:
    spans_of_sentence: dict[int, list[int]] = {}
    for position, span in enumerate(window.spans):
        sentence = pieces[span.sentence_index].sentence_index
        spans_of_sentence.setdefault(sentence, []).append(position)
    groups = []
    for group in question.groups:
        spans: list[int] = []
        for sentence in group:
            spans += spans_of_sentence.get(sentence, [])
        if spans:
            groups.append(tuple(spans))
    answering = frozenset(span for group in groups for span in group)
    certain: list[int] = []
    for spans in spans_of_sentence.values():
        if len(spans) == 1 or spans[0] not in answering:
            certain += spans
    return AnswerWindow(window, tuple(groups), answering, tuple(sorted(certain)))


def batch_loss(network: CrossEncoderNetwork, batch: list[AnswerWindow]) -> Tensor:
    """Return the mean loss over the windows of a batch."""
    logits = fine_tuning.logits_of_windows(
        network, [example.window for example in batch]
    )
    total = torch.zeros(())
    for row, example in enumerate(batch):
        total = total + _window_loss(logits[row, : len(example.window.spans)], example)
    return total / len(batch)


def _window_loss(logits: Tensor, example: AnswerWindow) -> Tensor:
    no_answer = logits.new_zeros(1)
    normaliser = torch.logsumexp(torch.cat([logits, no_answer]), 0)
    answers = [torch.logsumexp(logits[list(group)], 0) for group in example.groups]
    chosen = sum(answers, no_answer[0]) / max(len(answers), 1)
    targets = torch.zeros(len(logits))
    targets[list(example.answering)] = 1.0
    certain = list(example.certain)
    by_sentence = binary_cross_entropy_with_logits(
        logits[certain], targets[certain], reduction="sum"
    )
    return normaliser - chosen + SENTENCE_LOSS_WEIGHT * by_sentence


def export_network(network: CrossEncoderNetwork, folder: Path = DATA_DIR) -> None:
    """Write the network's files; weights that the cross-encoder's file has are not written again."""
    network.encoder.limit_length(MAX_WINDOW_TOKENS + SPECIAL_POSITIONS)
    example = case_from_text(
        "Why was she treated?", "She came with a fever. She went home."
    )
    shared_weights = CROSS_ENCODER_FILE.with_suffix(".npz")
    export.export_network(network, folder / NETWORK_FILE.name, example, shared_weights)


def score_questions(
    cross_encoder: CrossEncoder, questions: Iterable[ShortQuestion]
) -> Iterator[ScoredQuestion]:
    """Yield every question with the logits of the exported network."""
    for question in questions:
        case = _case_of(question)
        logits = sentence_logits(cross_encoder, case, non_evidence_indices(case)).logits
        yield ScoredQuestion(question, logits)


def calibrate(
    scored: list[ScoredQuestion], judgement: JudgementWeights, provenance: str
) -> AnswerFinderSettings:
    """Fit the log-odds that a note answers to its highest logit, and set the threshold.

    The weights of the judgement are not fitted: they were chosen on the questions held out and on
    the sets of `archqa evaluate ask` together.
    """
    inputs = np.array([(item.logits.max(), 1.0) for item in scored])
    targets = np.array([float(bool(item.question.groups)) for item in scored])
    slope, bias = fit_logistic(inputs, targets, np.full(2, RIDGE)).tolist()
    settings = AnswerFinderSettings(
        slope=slope,
        bias=bias,
        judgement=judgement,
        min_answerable=0.5,
        margin=MARGIN,
        max_selected=MAX_SELECTED,
        provenance=provenance,
    )
    best = []
    for item in scored:
        if item.question.groups:
            judged = judge_sentences(
                question_focus(item.question.question),
                read_passages(_case_of(item.question)),
                item.logits,
                settings,
            )
            best.append(judged.log_odds.max())
    threshold = float(np.quantile(best, 1 - ANSWERED_SHARE))
    probability = float(1 / (1 + np.exp(-threshold)))
    return settings.model_copy(update={"min_answerable": probability})


def _case_of(question: ShortQuestion) -> Case:
    sentences = []
    for index, text in enumerate(question.sentences):
        sentences.append(Sentence(id=str(index + 1), text=text))
    return Case(
        id=question.note,
        clinician_question=question.question,
        sentences=tuple(sentences),
    )
