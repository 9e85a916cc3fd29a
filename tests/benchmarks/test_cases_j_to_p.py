"""The three pipelines of each case yield the units of an epoch, in batches of one type."""

import pytest
import tensorflow as tf

from benchmarks.cases._base import all_cases

CASES = {case.name: case for case in all_cases() if case.letter in "jkmnop"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_all_three_yield_the_units_of_an_epoch_in_batches_of_one_type(name, tmp_path):
    case = CASES[name]
    data = case.make_data(tmp_path)
    expected = case.units_per_epoch(data)
    datasets = [make(data) for make in (case.naive, case.expert, case.best)]
    assert [dataset.element_spec for dataset in datasets] == [datasets[0].element_spec] * 3
    for dataset in datasets:
        batches = (tf.nest.flatten(batch, expand_composites=True)[0] for batch in dataset)
        assert sum(int(batch.shape[0]) for batch in batches) == expected
