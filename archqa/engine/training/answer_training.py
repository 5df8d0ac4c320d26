"""Training of the answer finder's network on short questions. Needs the training extra.

The network starts from the shipped cross-encoder, less two of its layers. Its loss is that of
reading comprehension with unanswerable questions (Rajpurkar et al. 2018, arXiv:1806.03822; Devlin et
al. 2019, section 4.3): a softmax over the sentences of a window and over "no answer here", whose
logit is 0. A cross-entropy of each sentence is added, so that a sentence's logit means the same
in every window.
"""

import random
from typing import Any, NamedTuple

from archqa.engine.answer_windows import Piece, build_answer_windows, sentence_pieces
from archqa.engine.training import fine_tuning
from archqa.engine.training.asked_corpus import AskedQuestion
from archqa.engine.training.fine_tuning import TrainingConfig
from archqa.engine.training.regression import ProgressCallback
from archqa.engine.windows import TokenWindow
from archqa.terminology.words import stems

DROPPED_LAYERS = (7, 10)
"""Layers, from 0, whose removal changed the first rank of 60 training questions least; without them
a note of 3,500 characters takes a sixth less time."""
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


class AnswerWindow(NamedTuple):
    """A window; `groups` and `answering` count its spans.

    In each group one span suffices. `certain` are the spans whose own label is known: of a long
    sentence that answers, it is not known which piece does.
    """

    window: TokenWindow
    groups: tuple[tuple[int, ...], ...]
    answering: frozenset[int]
    certain: tuple[int, ...]


def drop_layers(network: Any) -> Any:
    """Remove `DROPPED_LAYERS` from a network of twelve."""
    layers = network.encoder.layers
    kept = [layer for index, layer in enumerate(layers) if index not in DROPPED_LAYERS]
    network.encoder.layers = type(layers)(kept)
    return network


def train_answer_finder(
    network: Any,
    questions: tuple[AskedQuestion, ...],
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> Any:
    """Train updates of the network's upper layers, on a GPU where there is one, and return it."""
    from archqa.engine.training.low_rank import add_low_rank_updates

    torch = fine_tuning.import_torch()
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
            network.train()
            optimizer.zero_grad()
            _loss(network, batch).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), fine_tuning.MAX_GRADIENT_NORM)
            optimizer.step()
            stage = f"epoch {epoch + 1} of {config.epochs}, batches"
            progress(stage, batch_index + 1, len(batches))
    return network.cpu().eval()


def _epoch_windows(questions: tuple[AskedQuestion, ...]) -> list[AnswerWindow]:
    windows: list[AnswerWindow] = []
    for question in random.sample(questions, len(questions)):
        windows += _sample_windows(question, random.choice(WINDOW_TOKENS))
        if random.random() < EASY_QUESTION_PROBABILITY:
            other = random.choice(questions)
            if _is_unrelated(question, other):
                unanswered = other._replace(question=question.question, groups=(), tempting=())
                windows += _sample_windows(unanswered, random.choice(WINDOW_TOKENS))[:1]
    return windows


def _is_unrelated(question: AskedQuestion, other: AskedQuestion) -> bool:
    """Whether the other note shares no word of content with the question."""
    shared = set(stems(question.question)) & set(stems(" ".join(other.sentences)))
    return question.note != other.note and not shared


def _sample_windows(question: AskedQuestion, max_tokens: int) -> list[AnswerWindow]:
    """Return the windows that have an answer or a temptation, and one or two of the others."""
    text = question.question
    if random.random() < PLAIN_QUESTION_PROBABILITY:
        text = text.rstrip("?. ")
    pieces = sentence_pieces(list(question.sentences))
    deciding = question.answering or frozenset(question.tempting)
    with_deciding: list[AnswerWindow] = []
    others: list[AnswerWindow] = []
    for window in build_answer_windows(text, pieces, max_tokens):
        sentences = {pieces[span.sentence_index].sentence_index for span in window.spans}
        side = with_deciding if deciding & sentences else others
        side.append(_answer_window(window, pieces, question))
    other_count = OTHER_WINDOWS if with_deciding else 2 * OTHER_WINDOWS
    sampled = random.sample(others, min(other_count, len(others)))
    return with_deciding[:MAX_ANSWERING_WINDOWS] + sampled


def _answer_window(
    window: TokenWindow, pieces: list[Piece], question: AskedQuestion
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


def _loss(network: Any, batch: list[AnswerWindow]) -> Any:
    """Return the mean over the windows of a batch."""
    logits = fine_tuning.logits_of_windows(network, [example.window for example in batch])
    total = 0.0
    for row, example in enumerate(batch):
        total = total + _window_loss(logits[row, : len(example.window.spans)], example)
    return total / len(batch)


def _window_loss(logits: Any, example: AnswerWindow) -> Any:
    torch = fine_tuning.import_torch()
    no_answer = logits.new_zeros(1)
    normaliser = torch.logsumexp(torch.cat([logits, no_answer]), 0)
    answers = [torch.logsumexp(logits[list(group)], 0) for group in example.groups]
    chosen = sum(answers) / len(answers) if answers else no_answer[0]
    targets = torch.zeros(len(logits))
    targets[list(example.answering)] = 1.0
    certain = list(example.certain)
    by_sentence = torch.nn.functional.binary_cross_entropy_with_logits(
        logits[certain], targets[certain], reduction="sum"
    )
    return normaliser - chosen + SENTENCE_LOSS_WEIGHT * by_sentence
