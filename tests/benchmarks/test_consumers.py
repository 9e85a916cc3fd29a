"""A model that is ready to train, and a batch that costs nothing to make."""

from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.cases import e_parse_example
from benchmarks.consumers import BatchInMemory, compiled
from benchmarks.models import make_model

RECORDS = 1_500
TINY = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=RECORDS))


def test_a_compiled_model_has_its_initial_weights(tmp_path):
    memory = BatchInMemory.of(TINY, TINY.make_data(tmp_path))
    model = compiled(TINY.name, memory)
    fresh = make_model(TINY.name, memory.free().element_spec)
    for one, other in zip(model.get_weights(), fresh.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(model.optimizer.iterations) == 0


def test_memory_has_the_steps_and_sizes_of_the_case(tmp_path):
    data = TINY.make_data(tmp_path)
    memory = BatchInMemory.of(TINY, data)
    assert memory.free().element_spec == TINY.naive(data).element_spec
    assert int(memory.free().cardinality()) == memory.steps == len(list(TINY.naive(data)))
    assert [len(labels) for _, labels in memory.every_shape()] == [128, RECORDS % 128]
