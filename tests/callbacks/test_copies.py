"""Searches over models copy the callbacks that they are given, for each model."""

import copy

import pytest
from recording import Recorder, identity, rows

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


@pytest.mark.parametrize("made", [lambda: PipelineTuner(trials=1, verbose=0), PipelineMonitor])
def test_a_callback_may_be_copied_before_and_after_it_saw_a_training(made):
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    first = made()
    second = copy.deepcopy(first)
    histories = []
    for callback in (first, second, copy.deepcopy(second)):
        assert getattr(callback, "dataset", None) is None
        histories.append(Recorder().fit(dataset, verbose=0, callbacks=[callback]).history.keys())
    assert histories == [histories[0]] * 3
    assert "input_stall" in histories[0]
