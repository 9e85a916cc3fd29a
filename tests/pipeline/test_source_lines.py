"""The line that made a stage is known: of one with a function always, of the others while lines are noted."""

import inspect

import keras
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.source_lines import noting_lines
from autopipe.pipeline.text import stage

Dataset = tf.data.Dataset


def double(x):
    return 2 * x


def lines(dataset):
    """Return the line of each stage, counted from the ``def`` of the test that made it."""
    start = inspect.stack()[1].frame.f_code.co_firstlineno
    found = {}
    for node in reversed(list(trees.walk(extract(dataset)))):
        file, _, line = (node.line or ":0").partition(":")
        assert file in ("", "test_source_lines.py")
        found.setdefault(stage(node), []).append(int(line) - start if node.line else None)
    return found


def test_each_call_of_a_chain_has_its_own_line():
    with noting_lines():
        dataset = (
            Dataset.range(9)
            .map(
                double,
                num_parallel_calls=2,
            )
            .filter(lambda x: x > 2)
            .batch(2)
            .enumerate()
            .prefetch(1)
        )
    assert lines(dataset) == {
        "range(0, 9)": [3],
        "map(double, calls=2)": [4],
        "filter(<lambda>)": [8],
        "batch(2)": [9],
        "enumerate()": [10],
        "prefetch(1)": [11],
    }


def test_stages_with_functions_know_their_line_without_noting():
    dataset = Dataset.range(9).map(double)
    dataset = dataset.filter(lambda x: x > 2).batch(2)
    dataset = dataset.flat_map(Dataset.from_tensor_slices)
    dataset = dataset.interleave(Dataset.range)
    assert lines(dataset) == {
        "range(0, 9)": [None],
        "map(double)": [1],
        "filter(<lambda>)": [2],
        "batch(2)": [None],
        "flat_map(from_tensor_slices)": [3],
        "interleave(range, cycle=AUTOTUNE)": [4],
    }


def test_a_stage_whose_function_calls_a_tf_function_was_made_where_it_is_written():
    """The calls are taken apart, and the function is traced anew, in another line: that of ``optimize()``."""
    traced = tf.function(double)
    dataset = Dataset.range(9).map(lambda x: traced(x) + 1)
    assert lines(dataset) == {"range(0, 9)": [None], "map(<lambda>)": [3]}


def test_a_loop_makes_all_its_stages_on_one_line():
    with noting_lines():
        dataset = Dataset.range(9)
        for size in (2, 3):
            dataset = dataset.batch(size)
    assert lines(dataset) == {"range(0, 9)": [2], "batch(2)": [4], "batch(3)": [4]}


def helper(dataset):
    return dataset.map(double).batch(2)


@pytest.mark.parametrize("apply", [helper, lambda dataset: dataset.apply(helper)], ids=["called", "applied"])
@pytest.mark.parametrize("noted", [True, False])
def test_what_a_helper_makes_is_at_the_helpers_line(apply, noted):
    if noted:
        with noting_lines():
            dataset = apply(Dataset.range(9))
    else:
        dataset = apply(Dataset.range(9))
    line = f"test_source_lines.py:{inspect.getsourcelines(helper)[1] + 1}"
    tree = extract(dataset)
    assert tree.input.line == line
    assert tree.line == (line if noted else None)


def test_the_parts_of_one_call_are_at_its_line():
    with noting_lines():
        dataset = Dataset.range(9).batch(2).unbatch().ragged_batch(3)
    assert set(map(tuple, lines(dataset).values())) == {(2,)}


def test_what_keras_makes_is_at_the_users_line(tmp_path):
    for number in range(4):
        folder = tmp_path / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        tf.io.write_file(str(folder / f"{number}.png"), tf.io.encode_png(tf.zeros((4, 4, 3), tf.uint8)))
    with noting_lines():
        dataset = keras.utils.image_dataset_from_directory(tmp_path, image_size=(4, 4), verbose=False)
    found = lines(dataset)
    assert len(found) > 2
    assert {line for each in found.values() for line in each} == {6}


def test_list_files_is_at_the_users_line(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with noting_lines():
        dataset = Dataset.list_files(str(tmp_path / "*.txt"))
        dataset = tf.data.TextLineDataset(dataset)
    found = lines(dataset)
    assert found.pop("text_files()") == [4]
    assert {line for each in found.values() for line in each} == {3}


def test_lines_stay_with_what_is_made_of_them():
    with noting_lines():
        dataset = Dataset.range(9).map(double)
    again = dataset.batch(2)
    assert lines(again) == {"range(0, 9)": [2], "map(double)": [2], "batch(2)": [None]}


def test_a_line_does_not_make_another_stage():
    with noting_lines():
        noted = Dataset.range(9)
    bare = extract(noted)
    noted._autopipe_line = "other.py:1"
    assert extract(noted) == bare
    assert hash(extract(noted)) == hash(bare)


def test_nothing_stays_patched():
    constructor = Dataset.__init__
    with pytest.raises(KeyError), noting_lines():
        assert Dataset.__init__ is not constructor
        raise KeyError
    assert Dataset.__init__ is constructor
    with noting_lines(), noting_lines():
        Dataset.range(3)
    assert Dataset.__init__ is constructor
    assert extract(Dataset.range(3)).line is None


def test_an_optimized_dataset_is_noted_too():
    with noting_lines():
        dataset = autopipe.optimize(Dataset.range(9).map(double).batch(2), rules=())
    assert lines(dataset.original) == {"range(0, 9)": [2], "map(double)": [2], "batch(2)": [2]}
