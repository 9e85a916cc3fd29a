"""The searches of a training need no Keras: whatever reads a dataset may tell them of its steps."""

import math

import pytest
import tensorflow as tf
from optuna.distributions import CategoricalDistribution

import autopipe
from autopipe.runtime.reading import observe
from autopipe.tuning.live.live import LiveSearch, Settings, live_space
from autopipe.tuning.live.memory_guard import MemoryGuard
from autopipe.tuning.live.next_epoch import NextEpoch

MOST_EPOCHS = 300


class Reader:
    """Knows what is being read."""

    def __init__(self):
        self.reading = None
        observe(self)

    def reading_started(self, reading):
        self.reading = reading


@pytest.fixture
def dataset():
    return autopipe.optimize(tf.data.Dataset.range(64).shuffle(8).batch(2).prefetch(1), rules=(), seconds=0)


def sizes(knobs, machine):
    return {knob.name: CategoricalDistribution((knob.least, 64)) for knob in knobs if knob.field == "buffer_size"}


def test_a_space_has_all_knobs_and_those_are_searched_that_can_change_at_once(dataset):
    assert list(live_space(sizes, dataset)) == ["prefetch.buffer_size"]


def test_a_search_is_told_of_steps_and_leaves_what_is_read_whole(dataset):
    reader = Reader()
    settings = Settings(trials=1, space=sizes, objective="rate", window_seconds=0.001, most_loss=math.inf, seed=1)
    of_training = {"study": None, "guard": MemoryGuard(), "next_epoch": NextEpoch(), "gpu": None, "in_loop": True}
    live = LiveSearch(dataset, settings, **of_training)
    for _ in range(MOST_EPOCHS):
        seen = []
        for batch in dataset:
            seen += batch.numpy().tolist()
            live.steps_ended(reader.reading, 1)
        assert sorted(seen) == list(range(64))
        if live.search.trials:
            break
    assert [trial.knobs["prefetch.buffer_size"] for trial in live.search.trials] == [64]
