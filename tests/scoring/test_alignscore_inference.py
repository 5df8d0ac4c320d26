"""AlignScore's inference on a tiny random RoBERTa in the layout of the published Lightning checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from scoring import ScoringError, TextSample
from scoring.alignscore import AlignScore

torch = pytest.importorskip("torch", reason="torch is not installed (extra alignscore)")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed (extra alignscore)"
)
punkt = pytest.importorskip(
    "nltk.tokenize.punkt", reason="NLTK is not installed (extra alignscore)"
)

CONTEXT = "A stone was seen in the duct. It was removed on day two. She ate well and went home."
CLAIM = "The stone was removed. She went home."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level tokenizer of single letters and the configuration of a two-layer RoBERTa."""
    folder = tmp_path_factory.mktemp("tiny-roberta")
    letters = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
        "Ġ",
        *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,",
    ]
    (folder / "vocab.json").write_text(
        json.dumps({letter: number for number, letter in enumerate(letters)})
    )
    (folder / "merges.txt").write_text("#version: 0.2\n")
    transformers.RobertaTokenizer(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt")
    ).save_pretrained(folder)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = transformers.RobertaConfig(
        vocab_size=len(letters), max_position_embeddings=514, pad_token_id=1, **sizes
    )
    config.save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(encoder: Path, tmp_path: Path) -> Path:
    """Random weights by the published names, with heads and buffers that inference does not use."""
    torch.manual_seed(7)
    model = transformers.RobertaModel(transformers.AutoConfig.from_pretrained(encoder))
    state = {f"base_model.{name}": value for name, value in model.state_dict().items()}
    state["base_model.embeddings.position_ids"] = torch.arange(514)[None]
    for head, labels in (("bin_layer", 2), ("tri_layer", 3), ("reg_layer", 1)):
        state |= {
            f"{head}.weight": torch.randn(labels, 16) * 3,
            f"{head}.bias": torch.randn(labels),
        }
    state["mlm_head.bias"] = torch.zeros(4)
    path = tmp_path / "AlignScore-base.ckpt"
    torch.save(
        {"epoch": 1, "pytorch-lightning_version": "1.7.7", "state_dict": state}, path
    )
    return path


@pytest.fixture(autouse=True)
def sentence_splitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK data with an untrained English splitter."""
    nltk = pytest.importorskip("nltk")
    folder = tmp_path / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    punkt.save_punkt_params(punkt.PunktParameters(), str(folder))


def expected(encoder: Path, checkpoint: Path, context: str, claim: str) -> float:
    """The probability of "aligned" for one pair, straight from transformers and the checkpoint's tri_layer."""
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    model = transformers.RobertaModel(
        transformers.AutoConfig.from_pretrained(encoder)
    ).train(False)
    model.load_state_dict(
        {
            name[11:]: value
            for name, value in state.items()
            if name[:11] == "base_model."
        },
        strict=False,
    )
    tokens = transformers.AutoTokenizer.from_pretrained(encoder)(
        context, claim, return_tensors="pt"
    )
    with torch.no_grad():
        pooled = model(**tokens).pooler_output
    return float(
        (pooled @ state["tri_layer.weight"].T + state["tri_layer.bias"]).softmax(
            dim=-1
        )[0, 0]
    )


def test_the_score_is_the_mean_over_sentences_of_the_three_way_heads_first_probability(
    encoder: Path, checkpoint: Path
) -> None:
    metric = AlignScore(checkpoint=str(checkpoint), encoder=str(encoder))
    assert metric.availability() is None
    pairs = [
        expected(encoder, checkpoint, CONTEXT, claim)
        for claim in ("The stone was removed.", "She went home.")
    ]
    assert metric.score(TextSample(CLAIM, CONTEXT)) == pytest.approx(
        100 * sum(pairs) / 2, abs=1e-3
    )


def test_batches_and_their_padding_do_not_change_the_score(
    encoder: Path, checkpoint: Path
) -> None:
    one, many = (
        AlignScore(checkpoint=str(checkpoint), encoder=str(encoder), batch=size)
        for size in (1, 8)
    )
    assert one.score(TextSample(CLAIM, CONTEXT)) == pytest.approx(
        many.score(TextSample(CLAIM, CONTEXT)), abs=1e-3
    )


def test_a_long_context_is_scored_by_its_best_chunk(
    encoder: Path, checkpoint: Path
) -> None:
    sentences = [f"{'abc ' * 99}end.", f"{'xyz ' * 299}end.", "The stone was removed."]
    metric = AlignScore(checkpoint=str(checkpoint), encoder=str(encoder))
    # 402 words make two chunks of one sentence each and a third for the rest; both long ones are cut to 512 tokens.
    whole = metric.score(TextSample("She went home.", " ".join(sentences)))
    parts = [
        metric.score(TextSample("She went home.", sentence)) for sentence in sentences
    ]
    assert whole == pytest.approx(max(parts), abs=1e-3)


def test_a_checkpoint_of_another_size_is_refused(encoder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.ckpt"
    torch.save(
        {
            "state_dict": {
                "tri_layer.weight": torch.zeros(3, 16),
                "tri_layer.bias": torch.zeros(3),
            }
        },
        wrong,
    )
    with pytest.raises(ScoringError, match="lacks"):
        AlignScore(checkpoint=str(wrong), encoder=str(encoder)).score(
            TextSample(CLAIM, CONTEXT)
        )


def test_a_file_that_is_no_checkpoint_is_refused(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "not.ckpt").write_bytes(b"hello")
    metric: Any = AlignScore(
        checkpoint=str(tmp_path / "not.ckpt"), encoder=str(encoder)
    )
    with pytest.raises(ScoringError, match="not a Lightning checkpoint"):
        metric.score(TextSample(CLAIM, CONTEXT))
