"""Keys that a cache holds beside its elements group them as before."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.signature import signature
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_keys"
Dataset = tf.data.Dataset
DRAWN = tf.random.Generator.from_seed(1)
TABLE = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.range(9, dtype=tf.int64), tf.range(9, dtype=tf.int64) // 4), -1
)


def sentence(x):
    return {"words": tf.range(x % 7 + 1), "label": x % 2}


def length(sentence):
    return tf.size(sentence["words"])


def odd(x):
    return x % 2


def batched(key, window):
    return window.batch(3)


def grouped(dataset, key=odd, reduce=batched):
    return dataset.group_by_window(key, reduce, window_size=3)


def buckets(dataset):
    return dataset.bucket_by_sequence_length(length, [3, 5], [4, 3, 2])


@pytest.mark.parametrize("keeps", Keeps)
def test_a_key_is_worked_out_before_the_cache_and_not_in_every_epoch(keeps):
    dataset = grouped(Dataset.range(20).cache())
    result = "range(0, 20) | map(with its key) | cache() | group_by_window(batched)"
    assert_rewrites(RULE, dataset, result, keeps)


def test_buckets_of_sentences_stay_as_they_are():
    dataset = buckets(Dataset.range(40).map(sentence).cache())
    result = "range(0, 40) | map(sentence) | map(with its key) | cache() | group_by_window(batching_fn)"
    assert_rewrites(RULE, dataset, result)


def test_a_seeded_order_and_a_repeat_between_stay_as_they_are():
    dataset = buckets(Dataset.range(40).map(sentence).cache().shuffle(9, seed=4).repeat(2))
    result = (
        "range(0, 40) | map(sentence) | map(with its key) | cache() | shuffle(9, seed=4) | repeat(2) | "
        "group_by_window(batching_fn)"
    )
    assert_rewrites(RULE, dataset, result)


def test_a_key_that_a_table_tells_is_cached_too():
    dataset = grouped(Dataset.range(9).cache(), TABLE.lookup)
    assert_rewrites(RULE, dataset, "range(0, 9) | map(with its key) | cache() | group_by_window(batched)")


def sized(_key, window):
    return window.batch(window.cardinality())


def with_size(_key, window):
    return Dataset.zip((window.batch(3), Dataset.from_tensors(window.cardinality())))


@pytest.mark.parametrize("reduce", [sized, with_size])
def test_a_window_may_be_asked_how_many_it_holds(reduce):
    dataset = grouped(Dataset.range(20).cache(), reduce=reduce)
    result = f"range(0, 20) | map(with its key) | cache() | group_by_window({reduce.__name__})"
    assert_rewrites(RULE, dataset, result)


def test_of_two_groupings_each_has_its_key():
    dataset = grouped(grouped(Dataset.range(30).cache(), reduce=lambda _, window: window).cache(), lambda x: x % 3)
    done = apply(RULE, dataset)
    assert [step.rule for step in done.steps] == [RULE] * 2
    assert compare(dataset, autopipe.optimize(dataset, rules=[RULE]), Keeps.SEQUENCE, epochs=2) is None


def test_together_with_the_cache_that_autopipe_adds(monkeypatch):
    monkeypatch.setattr(
        "autopipe.planning.measuring.measure.SampleMeasurements.caching", lambda *_, on_disk=False: (1.0, 1e-4)
    )
    sentences = Dataset.range(60).map(lambda x: sentence(x) | {"text": tf.strings.as_string(x)})
    dataset = buckets(sentences.shuffle(20, seed=1))
    optimized = autopipe.optimize(dataset)
    assert {"cache_fixed_work", RULE} <= set(optimized.plan.rules)
    assert compare(dataset, optimized, Keeps.SEQUENCE, epochs=3) is None


def test_where_the_plan_is_given_again_it_is_the_same():
    dataset = buckets(Dataset.range(40).map(sentence).cache())
    first = autopipe.optimize(dataset, rules=[RULE])
    again = autopipe.optimize(dataset, plan=first.plan)
    assert RULE in again.plan.rules
    assert again.explain().rewriting.after == first.explain().rewriting.after


def test_the_iterator_is_saved_and_restored_with_its_windows_half_full(tmp_path):
    dataset = autopipe.optimize(buckets(Dataset.range(40).map(sentence).cache()), rules=[RULE])
    expected = [batch["label"].numpy().tolist() for batch in dataset]
    iterator = iter(dataset)
    begun = [next(iterator)["label"].numpy().tolist() for _ in range(4)]
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
    resumed = iter(dataset)
    tf.train.Checkpoint(iterator=resumed).restore(saved)
    assert begun + [batch["label"].numpy().tolist() for batch in resumed] == expected


@pytest.mark.parametrize(
    "dataset",
    [
        grouped(Dataset.range(20).cache(), lambda x: x),
        grouped(Dataset.range(20).map(lambda x: (x, x % 2)).cache(), lambda x, y: y, lambda _, window: window.batch(3)),
        grouped(Dataset.range(20)),
        grouped(Dataset.range(20).cache().map(lambda x: x + 1)),
        grouped(Dataset.range(20).cache().batch(2).unbatch()),
    ],
)
def test_leaves_a_key_that_is_stored_already_and_elements_out_of_no_cache(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_a_key_that_is_drawn():
    dataset = grouped(Dataset.range(20).cache(), lambda x: DRAWN.uniform((), 0, 2, tf.int64))
    assert_refuses(RULE, dataset, "each epoch must run it again")


def test_refuses_a_key_that_a_variable_tells():
    step = tf.Variable(2, dtype=tf.int64)
    assert_refuses(RULE, grouped(Dataset.range(20).cache(), lambda x: x // step), "each epoch must run it again")


def test_refuses_a_key_that_may_fail_where_errors_are_ignored():
    dataset = grouped(Dataset.range(4).map(tf.strings.as_string).cache(), lambda x: tf.strings.to_number(x, tf.int64))
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors() would leave out other elements")


def test_refuses_a_cache_that_others_read_too():
    cache = Dataset.range(6).shuffle(6).take(3).cache()
    plain = grouped(cache, reduce=lambda _, window: window)
    assert_refuses(RULE, plain.concatenate(cache), "both readers get the same from it")


def test_refuses_a_cache_file(tmp_path):
    dataset = grouped(Dataset.range(6).cache(str(tmp_path / "elements")))
    assert_refuses(RULE, dataset, "may already hold elements of the old place")


def test_refuses_where_keys_and_elements_together_do_not_fit():
    dataset = grouped(Dataset.range(1000).cache())
    assert_refuses(RULE, dataset, "above the RAM budget", answers=Answers(ram_budget=500))


def by_size(node):
    return 2.0**20 * len(tf.nest.flatten(signature(node).element_spec))


@pytest.mark.parametrize(
    ("shuffled", "held"),
    [
        (Dataset.range(90).filter(lambda x: x > 0).cache().shuffle(-2), "all elements"),
        (Dataset.range(90).cache().shuffle(70).shuffle(50), "120 elements"),
        (Dataset.range(90).cache().repeat(3).shuffle(200), "200 elements"),
    ],
)
def test_refuses_shuffles_that_would_hold_much_more_with_keys(shuffled, held):
    assert_refuses(RULE, grouped(shuffled), f"{held} would be held", answers=Answers(element_bytes=by_size))


@pytest.mark.parametrize(
    "shuffled", [Dataset.range(9).cache().shuffle(10**6), Dataset.range(9).shuffle(10**6).cache().shuffle(9)]
)
def test_a_shuffle_holds_no_more_than_there_is_and_one_before_the_cache_no_keys(shuffled):
    done = apply(RULE, grouped(shuffled), answers=Answers(element_bytes=by_size))
    assert [step.rule for step in done.steps] == [RULE]


def test_an_element_whose_key_fails_still_fails():
    words = Dataset.from_tensor_slices(["1", "2", "x", "4"]).cache()
    dataset = autopipe.optimize(grouped(words, lambda x: tf.strings.to_number(x, tf.int64)), rules=[RULE])
    assert RULE in dataset.plan.rules
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumber"):
            list(dataset)


def test_the_cache_that_grew_is_forecast():
    assert apply(RULE, grouped(Dataset.range(20).cache()), answers=Answers(cache_bytes=700)).new_cache_bytes == 700
