"""A training run measures the model with each pipeline, and the same model with input that costs nothing."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from small_model import small_model

from benchmarks import report, training
from benchmarks.cases import a_flowers, d_fused_map, e_parse_example
from benchmarks.models import LARGE_MODELS, MODELS, make_model
from benchmarks.training import TRAINED, TUNED, is_trained, train_all

RECORDS = 1_500
TINY = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=RECORDS))
AMOUNTS = {a_flowers: 40, d_fused_map: 40, e_parse_example: 200}
CASES = [
    pytest.param(case, amount, id=case.name)
    for module, amount in AMOUNTS.items()
    for case in module.CASES
    if is_trained(case)
]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    told = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(MODELS, TINY.name, small_model)
        result = train_all(
            TINY,
            tmp_path_factory.mktemp("records"),
            rounds=2,
            least_seconds=0.0,
            tuning_seconds=1.0,
            on_epoch=told.append,
        )
    count = len(TRAINED)
    assert told[:count] == list(TRAINED)
    assert set(told[count:-count]) == set(TRAINED)
    assert told[-count:] == told[-count - 1 : count - 1 : -1]
    return result


def test_every_variant_is_trained_in_every_round(result):
    assert result.steps == -(-RECORDS // 128)
    assert list(result.variants) == list(TRAINED)
    for run in result.variants.values():
        assert run.first_epoch_seconds > 0
        assert len(run.epoch_seconds) == len(run.busy) == 2
        assert all(seconds > 0 for seconds in run.epoch_seconds)
        assert all(0 <= busy <= 1 for busy in run.busy)
    assert result.ratio("expert").median == 1.0


def test_what_takes_half_as_long_is_twice_as_fast(result):
    theirs = result.variants["expert"]
    faster = replace(theirs, epoch_seconds=tuple(seconds / 2 for seconds in theirs.epoch_seconds))
    result = replace(result, variants={**result.variants, "naive": faster})
    assert result.ratio("naive").median == pytest.approx(2.0)


def test_only_what_autopipe_made_took_time_to_prepare(result):
    prepared = {name for name, run in result.variants.items() if run.preparing_seconds > 0}
    assert prepared == {"autopipe(naive)", TUNED}
    (tuned,) = (name for name, run in result.variants.items() if run.tuning)
    tuning = result.variants[tuned].tuning
    assert tuned == TUNED
    assert tuning.seconds > tuning.epoch_seconds > 0
    assert 0 <= tuning.kept <= tuning.trials
    assert 0 <= tuning.trial_seconds <= tuning.seconds


def test_the_report_has_a_row_for_each_variant(result):
    text = report.markdown(report.Results(training=[result]))
    rows = [
        line for line in text.splitlines() if line.startswith("| ") and any(f"| {name} |" in line for name in TRAINED)
    ]
    assert len(rows) == len(TRAINED)
    assert rows[0].startswith("| e | parse_example | naive |  | ")
    assert "did not wait for data" in text
    assert "| 1.00 (1.00-1.00) |" in rows[1]
    assert "A small Keras model for each, trained from" in text
    on_gpu = report.markdown(report.Results(training=[replace(result, gpu="A100")]))
    assert "utilization of the A100" in on_gpu
    assert "ResNet-50 for images" in on_gpu


def test_the_figures_are_plain_values(result):
    assert asdict(result)["variants"]["naive"]["epoch_seconds"] == result.variants["naive"].epoch_seconds


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("case", "amount"), CASES)
def test_each_model_learns_from_its_case(case, amount, tmp_path):
    dataset = case.expert(case.make_data(tmp_path, amount)).take(1)
    model, again = (make_model(case.name, dataset.element_spec) for _ in range(2))
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert case.name in MODELS
    batch = next(iter(dataset))
    losses = model.fit(tf.data.Dataset.from_tensors(batch).repeat(10), epochs=3, shuffle=False, verbose=0).history[
        "loss"
    ]
    assert losses[-1] < losses[0]


@pytest.mark.deep
def test_the_large_model_of_images_is_resnet50_and_of_the_rest_the_usual_one():
    images = tf.TensorSpec((None, 32, 32, 3)), tf.TensorSpec((None,), tf.int64)
    large = make_model("flowers", images, large=True)
    assert "resnet50" in [layer.name for layer in large.layers]
    pixels = np.random.default_rng(0).uniform(size=(4, 32, 32, 3))
    assert np.isfinite(large.predict(pixels, verbose=0)).all()
    assert set(LARGE_MODELS) == {name for name in MODELS if name != TINY.name}


@pytest.mark.parametrize(("gpu", "large"), [("H200", True), (None, False)])
def test_the_large_models_are_trained_where_there_is_a_gpu(gpu, large, tmp_path, monkeypatch):
    asked = []

    def make(element_spec, of):
        asked.append(of)
        return small_model(element_spec)

    monkeypatch.setattr(training, "_gpu_name", lambda: gpu)
    monkeypatch.setattr(training, "TRAINED", ("expert",))
    monkeypatch.setitem(MODELS, TINY.name, partial(make, of=False))
    monkeypatch.setitem(LARGE_MODELS, TINY.name, partial(make, of=True))
    case = replace(TINY, make_data=partial(e_parse_example.make_data, records=200))
    result = train_all(case, tmp_path, rounds=1, least_seconds=0.0, tuning_seconds=0.1)
    assert result.gpu == gpu
    assert asked == [large]


def test_the_gpu_is_busy_as_it_was_when_the_turn_before_no_longer_counts():
    epochs = [(0.0, 0.9, 0.5, 0.1), (0.9, 0.6, 0.5, 0.2), (1.5, 0.5, 0.5, 0.8), (2.0, 0.5, 0.5, 0.6)]
    turn = training._Turn(tuple(training._Epoch(*each) for each in epochs))
    assert turn.busy == pytest.approx(0.7)
    assert training._Turn(turn.epochs[:2]).busy == pytest.approx(0.2)


def test_without_a_gpu_busy_is_the_time_not_spent_waiting():
    epochs = training._Epoch(0.0, 1.0, 0.9, None), training._Epoch(1.0, 3.0, 0.1, None)
    assert training._Turn(epochs).busy == pytest.approx(1 - (0.9 + 0.3) / 4)
