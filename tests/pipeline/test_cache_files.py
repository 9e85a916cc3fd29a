"""A file that its author's cache writes is left to the one iterator that writes it."""

import tensorflow as tf

import autopipe
from autopipe.pipeline.cache_files import may_write
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
COUNT = 16


def numbers(file, stages=lambda kept: kept.prefetch(1).map(lambda x: x + 1)):
    return autopipe.optimize(stages(Dataset.range(COUNT).cache(str(file))), keeps="sequence", seconds=0)


def retuned(dataset, step):
    dataset.retune({name: 1 + step % 3 for name in dataset.knobs if "buffer" in name})


def test_a_file_may_be_written_until_it_is_whole(tmp_path):
    kept = Dataset.range(COUNT).cache(str(tmp_path / "kept"))
    after = extract(kept.map(lambda x: x + 1).batch(2))
    assert may_write(after)
    assert len(list(kept)) == COUNT
    assert not may_write(after)
    assert not may_write(extract(Dataset.range(COUNT).cache()))


def test_retuning_waits_until_a_file_is_written(tmp_path):
    dataset = numbers(tmp_path / "kept")
    for step, _ in enumerate(dataset):
        retuned(dataset, step)
    assert [int(x) for x in dataset] == list(range(1, COUNT + 1))
    assert [int(x) for x in Dataset.range(COUNT).cache(str(tmp_path / "kept"))] == list(range(COUNT))

    seen = []
    for step, x in enumerate(dataset):
        seen.append(int(x))
        retuned(dataset, step)
    assert seen == list(range(1, COUNT + 1))


def test_a_file_is_written_anew_after_an_epoch_that_was_left(tmp_path):
    for attempt in range(4):
        dataset = numbers(tmp_path / str(attempt), lambda kept: kept.map(lambda x: x + 1, num_parallel_calls=2))
        for _ in dataset:
            retuned(dataset, attempt)
            break
        assert len(list(dataset)) == COUNT
        assert len(list(dataset)) == COUNT


def test_no_iterator_starts_early_while_another_writes_the_file(tmp_path):
    dataset = numbers(tmp_path / "kept")
    assert dataset.start_early() is None
    assert len(list(dataset)) == COUNT
    assert dataset.start_early() is not None
