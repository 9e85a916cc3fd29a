import gc
import weakref

import pytest
import tensorflow as tf
from disposing import wait_for_disposal
from hypothesis import given, settings
from hypothesis import strategies as st

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.seeds import repeats_a_seeded_shuffle
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps, catalogue
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_results"
Dataset = tf.data.Dataset
NUMBERS = Dataset.range(40)
TEXTS = Dataset.from_tensor_slices([f"{number}" for number in range(40)])


def parse(x):
    return tf.strings.to_number(x)


def parse_length(x):
    return tf.strings.to_number(tf.strings.as_string(x))


def angle(x):
    return tf.sin(x)


def noisy(x):
    return tf.sin(tf.strings.to_number(x)) + tf.random.uniform([])


def slow(x):
    return tf.reduce_sum(tf.linalg.inv(tf.eye(200) + tf.cast(x, tf.float32)))


def inverse(x):
    return tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 7) // (x % 5)


def test_other_elements_of_a_shuffle_in_each_epoch_are_worked_out_once():
    done = apply(RULE, TEXTS.shuffle(40).take(30).map(parse), Keeps.SEQUENCE)
    kept = "tensor_slices | enumerate() | shuffle(40) | take(30) | memoized_map(parse, calls=AUTOTUNE)"
    assert one_line(done.after) == kept
    assert done.steps[0].keeps is Keeps.SEQUENCE
    epochs = [[float(x) for x in build(done.after)] for _epoch in range(2)]
    assert epochs[0] != epochs[1]
    assert all(len(set(epoch) & set(range(40))) == 30 for epoch in epochs)


def test_a_seeded_order_stays():
    assert_rewrites(
        RULE,
        TEXTS.shuffle(40, seed=3).skip(5).map(parse, num_parallel_calls=2),
        "tensor_slices | enumerate() | shuffle(40, seed=3) | skip(5) | memoized_map(parse, calls=2)",
        keeps=Keeps.SEQUENCE,
    )


def test_what_comes_before_the_first_draw_is_kept():
    done = apply(RULE, TEXTS.shuffle(40).take(30).map(noisy))
    kept = "tensor_slices | enumerate() | shuffle(40) | take(30) | memoized_map(fixed part of noisy, calls=AUTOTUNE)"
    assert one_line(done.after) == f"{kept} | map(rest of noisy)"
    first, second = (sorted(build(done.after).as_numpy_iterator()) for _epoch in range(2))
    assert first != second


def test_maps_right_before_it_are_kept_with_it():
    done = apply(RULE, TEXTS.shuffle(40).take(30).map(parse).map(angle).map(lambda x: x + tf.random.uniform([])))
    kept = "memoized_map(parse then angle, calls=AUTOTUNE) | map(<lambda>)"
    assert one_line(done.after) == f"tensor_slices | enumerate() | shuffle(40) | take(30) | {kept}"


def test_repeated_and_sharded_elements_are_found_again():
    assert_rewrites(
        RULE,
        TEXTS.repeat(2).shard(2, 1).shuffle(9, seed=8).take(12).map(parse),
        "tensor_slices | enumerate() | repeat(2) | shard(2, 1) | shuffle(9, seed=8) | take(12) | "
        "memoized_map(parse, calls=AUTOTUNE)",
    )


def test_elements_that_are_drawn_from_several_datasets_are_found_again():
    def sampled():
        parts = [TEXTS.take(5).shuffle(5, seed=1).repeat(), TEXTS.shuffle(40, seed=2).repeat(), TEXTS.skip(30)]
        return Dataset.sample_from_datasets(parts, [0.4, 0.4, 0.2], seed=3).take(50).map(parse)

    done = apply(RULE, sampled())
    (kept,) = (node for node in trees.walk(done.after) if isinstance(node, ir.MemoizedMap))
    assert signature(kept.kept).cardinality == 5 + 40 + 10
    assert compare(sampled(), build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_elements_of_joined_datasets_are_found_again():
    def joined():
        parts = TEXTS.take(5).shuffle(5, seed=1), TEXTS.skip(7).shuffle(40, seed=2)
        return parts[0].concatenate(parts[1]).map(parse)

    done = apply(RULE, joined())
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(joined(), build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_elements_that_are_filtered_after_a_shuffle_are_found_again():
    def filtered():
        return TEXTS.shuffle(40, seed=6).filter(lambda x: tf.strings.length(x) > 1).take(20).map(parse)

    assert_rewrites(
        RULE,
        filtered(),
        "tensor_slices | enumerate() | shuffle(40, seed=6) | filter(<lambda>) | take(20) | "
        "memoized_map(parse, calls=AUTOTUNE)",
    )


def test_what_a_filter_draws_differs_in_every_epoch():
    kept = apply(RULE, TEXTS.filter(lambda x: tf.random.uniform([]) < 0.5).map(parse))
    assert [step.rule for step in kept.steps] == [RULE]
    epochs = [[float(x) for x in build(kept.after)] for _epoch in range(5)]
    assert len(set(map(tuple, epochs))) == 5
    assert all(epoch == sorted(set(epoch)) and set(epoch) < set(range(40)) for epoch in epochs)


def test_a_take_downstream_leaves_the_rest_for_later():
    done = apply(RULE, TEXTS.shuffle(40).map(parse).batch(4).take(3))
    assert one_line(done.after) == (
        "tensor_slices | enumerate() | shuffle(40) | memoized_map(parse, calls=AUTOTUNE) | batch(4) | take(3)"
    )
    dataset = build(done.after)
    for _epoch in range(4):
        assert [batch.shape[0] for batch in dataset] == [4, 4, 4]


@pytest.mark.parametrize("mixed", [lambda numbers: numbers, lambda numbers: numbers.shuffle(8, seed=2)])
def test_ignored_errors_leave_out_the_same_elements_in_every_epoch(mixed):
    numbers = mixed(NUMBERS).map(inverse).batch(3).ignore_errors()
    done = apply(RULE, numbers)
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(numbers, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def with_quotient(x):
    return x, 6 // (x % 3 - 1)


def first_length(x, *others):
    return parse_length(x)


def test_an_error_in_what_the_next_map_ignores_is_not_lost():
    dataset = NUMBERS.shuffle(40, seed=2).take(30).map(with_quotient).map(first_length)
    done = apply(RULE, dataset.ignore_errors())
    assert "ignore_errors() would leave out other elements" in done.refusals[0].reason
    assert compare(dataset.ignore_errors(), build(done.after), Keeps.SEQUENCE) is None
    assert_refuses(RULE, dataset, "what is no longer computed cannot", Keeps.SEQUENCE)


def test_what_the_next_map_ignores_and_cannot_fail_may_be_left_out():
    pairs = NUMBERS.shuffle(40, seed=2).take(30).map(lambda x: (inverse(x), x + 1))
    done = apply(RULE, pairs.map(first_length).ignore_errors(), Keeps.SEQUENCE)
    assert one_line(done.after).endswith("memoized_map(<lambda> then first_length, calls=AUTOTUNE) | ignore_errors()")


def test_an_error_that_passes_costs_the_element_one_epoch_only():
    ready = tf.Variable(False)

    @tf.function(autograph=False)
    def fail_at_first(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.logical_or(ready, x != 3), ["not yet"])]):
            return tf.identity(x)

    # It reads a variable, and no rule would keep its results: the stage does as it is told.
    mapped = extract(NUMBERS.map(fail_at_first))
    kept = ir.MemoizedMap(input=extract(NUMBERS.enumerate()), fn=mapped.fn, source=mapped.input)
    dataset = build(ir.IgnoreErrors(input=kept))
    first = [int(x) for x in dataset]
    ready.assign(True)
    second = [int(x) for x in dataset]
    assert first == [x for x in range(40) if x != 3]
    assert second == list(range(40))


def test_an_epoch_left_halfway_leaves_nothing_out():
    dataset = build(apply(RULE, TEXTS.shuffle(40, seed=1).take(30).map(parse)).after)
    plain = TEXTS.shuffle(40, seed=1).take(30).map(parse)
    for few in (3, 7, 30):
        assert [float(x) for x in dataset.take(few)] == [float(x) for x in plain.take(few)]


def test_two_iterators_at_once_share_results():
    dataset = build(apply(RULE, TEXTS.shuffle(40).take(40).map(parse)).after)
    pairs = list(zip(dataset, dataset, strict=True))
    for side in zip(*pairs, strict=True):
        assert sorted(float(x) for x in side) == [float(number) for number in range(40)]


def test_where_a_cache_could_serve_nothing_is_said():
    for dataset in (TEXTS.map(parse), TEXTS.shuffle(40).map(parse), TEXTS.repeat(2).map(parse).batch(3)):
        assert_no_match(RULE, dataset)


def test_what_is_all_random_or_no_work_is_left_alone():
    for dataset in (
        TEXTS.shuffle(40).take(9).map(lambda x: tf.random.uniform([])),
        NUMBERS.shuffle(40).take(9).map(lambda x: x + 1),
        TEXTS.shuffle(40).take(9).map(parse, synchronous=True),
    ):
        assert_no_match(RULE, dataset)


@pytest.mark.parametrize("calls", [None, 2])
def test_where_an_option_frees_the_order_elements_are_numbered_before_it_is_free(calls):
    def freed():
        options = tf.data.Options()
        options.deterministic = False
        return TEXTS.with_options(options).map(parse, num_parallel_calls=calls).repeat(3)

    done = apply(RULE, freed())
    order = "calls=2" if calls else "calls=AUTOTUNE, deterministic=True"
    assert one_line(done.after) == f"tensor_slices | options | enumerate() | memoized_map(parse, {order}) | repeat(3)"
    assert sorted(float(x) for x in build(done.after)) == sorted([float(number) for number in range(40)] * 3)


def test_a_map_that_gives_results_as_they_are_ready_goes_on_doing_so():
    done = apply(RULE, TEXTS.map(parse, num_parallel_calls=2, deterministic=False).repeat(2))
    kept = "memoized_map(parse, calls=2, deterministic=False)"
    assert one_line(done.after) == f"tensor_slices | enumerate() | {kept} | repeat(2)"


def test_a_source_that_differs_from_epoch_to_epoch_is_refused():
    mixed = TEXTS.shuffle(40).batch(2).map(lambda pair: pair[0]).shuffle(9).take(5).map(parse)
    assert_refuses(RULE, mixed, "shuffle(40) gives each repetition its own order")


def settled(dataset):
    """Return what has drawn its one order already."""
    once = dataset.shuffle(1, reshuffle_each_iteration=False)
    next(iter(once))
    return once


@pytest.mark.parametrize("read", [lambda cached: cached, lambda cached: cached.shuffle(9).take(30)], ids=["", "taken"])
@pytest.mark.parametrize("once", [lambda dataset: dataset, settled], ids=["", "settled"])
def test_what_a_cache_of_the_authors_fixes_only_once_it_is_full_is_refused(once, read):
    # An iterator that is left at its first elements keeps results for them; the next one draws another order.
    assert not apply(RULE, read(once(TEXTS.shuffle(40).cache())).map(parse).ignore_errors()).steps


def test_after_a_look_at_the_first_elements_none_is_lost():
    dataset = autopipe.optimize(NUMBERS.shuffle(40).cache().map(lambda x: (x, slow(x))).ignore_errors())
    for _epoch in range(3):
        next(iter(dataset))
        assert sorted(int(x) for x, _ in dataset) == list(range(40))


def test_what_is_in_free_order_before_it_can_be_numbered_is_refused():
    options = tf.data.Options()
    options.deterministic = False
    dataset = TEXTS.batch(2, num_parallel_calls=2).unbatch().map(parse).with_options(options)
    assert_refuses(RULE, dataset, "options.deterministic=False may free the order of unbatch()")


def test_what_a_seeded_shuffle_would_have_to_wait_for_is_kept_by_number():
    expected = "tensor_slices | enumerate() | shuffle(1000, seed=3) | memoized_map(parse, calls=AUTOTUNE)"
    names = Dataset.from_tensor_slices([str(number) for number in range(1000)])
    dataset, slow_to_make = names.shuffle(1000, seed=3).map(parse), Answers(caching=(0.1, 1e-5))
    done = assert_rewrites(RULE, dataset, expected, keeps=Keeps.SEQUENCE, answers=slow_to_make)
    assert any("a first element may wait no longer than 5 s" in each for each in done.steps[0].reasons)
    assert_no_match(RULE, dataset)


def test_of_what_forbids_a_cache_as_well_nothing_more_is_said():
    dataset = TEXTS.shuffle(40).batch(2).map(lambda pair: pair[0]).map(lambda x: tf.strings.length(x)).map(parse_length)
    assert_no_match(RULE, dataset)
    assert "shuffle(40) gives each repetition its own order" in apply("cache_fixed_work", dataset).refusals[0].reason


@pytest.mark.parametrize("name", ["qint16", "quint16", "float8_e5m2"])
def test_refuses_results_of_which_tensorflow_could_not_choose_one(name):
    def packed(x):
        number = tf.strings.to_number(x)
        dtype = tf.as_dtype(name)
        return tf.quantization.quantize(number, 0.0, 50.0, dtype).output if "int" in name else tf.cast(number, dtype)

    reason = f"elements hold a {name}, for which TensorFlow has no conditional"
    assert_refuses(RULE, TEXTS.shuffle(40).take(30).map(packed), reason)


def test_results_are_kept_by_as_many_threads_as_the_author_gave_the_map(monkeypatch):
    built, make = [], tf.raw_ops.ParallelMapDatasetV2
    monkeypatch.setattr(tf.raw_ops, "ParallelMapDatasetV2", lambda **given: built.append(given) or make(**given))
    dataset = TEXTS.shuffle(40, seed=3).take(30).map(parse, num_parallel_calls=2, use_unbounded_threadpool=True)
    expected = "tensor_slices | enumerate() | shuffle(40, seed=3) | take(30) | memoized_map(parse, calls=2, unbounded="
    done = assert_rewrites(RULE, dataset, f"{expected}True)")
    assert {given["use_unbounded_threadpool"] for given in built} == {True}
    assert done.after.kept.input.use_unbounded_threadpool


def test_results_above_the_budget_are_refused():
    dataset = TEXTS.shuffle(40).take(30).map(parse)
    assert_refuses(RULE, dataset, "above the RAM budget", answers=Answers(ram_budget=10))


def test_little_work_is_refused():
    dataset = TEXTS.shuffle(40).take(30).map(parse)
    assert_refuses(RULE, dataset, "50 us to make an element", answers=Answers(caching=(50e-6, 1e-6)))


def test_memory_is_asked_for_all_elements_though_an_epoch_takes_few():
    asked = []

    class Asking(Answers):
        def cache_bytes(self, node):
            asked.append(one_line(node))
            return 1000

    done = apply(RULE, TEXTS.shuffle(40).take(3).map(parse), answers=Asking())
    assert set(asked) == {"tensor_slices | map(parse, calls=AUTOTUNE) | enumerate()"}
    assert done.new_cache_bytes == 1000


def test_an_optimized_dataset_and_what_is_derived_from_it_share_results():
    dataset = autopipe.optimize(NUMBERS.shuffle(40).take(30).map(slow))
    (kept,) = (node for node in trees.walk(dataset.tree) if isinstance(node, ir.MemoizedMap))

    def held():
        return int(tf.raw_ops.LookupTableSizeV2(table_handle=kept.table))

    assert held() == 0
    assert len(list(dataset)) == 30
    assert held() == 30
    for _epoch in range(20):
        assert len(list(dataset.batch(2))) == 15
    assert held() == 40
    dataset.retune({"memoized_map[slow].num_parallel_calls": 1})
    assert len(list(dataset)) == 30
    assert held() == 40


def test_an_iterator_that_is_retuned_goes_on_with_what_is_kept():
    plain = NUMBERS.shuffle(40, seed=5).take(30).map(slow)
    dataset = autopipe.optimize(NUMBERS.shuffle(40, seed=5).take(30).map(slow))
    for _epoch in range(2):
        expected, iterator = [float(x) for x in plain], iter(dataset)
        seen = [float(next(iterator)) for _ in range(4)]
        dataset.retune({"memoized_map[slow].num_parallel_calls": 2 + _epoch})
        assert seen + [float(x) for x in iterator] == expected


def test_memory_goes_with_the_dataset():
    dataset = autopipe.optimize(NUMBERS.shuffle(40).take(30).map(slow))
    assert len(list(dataset)) == 30
    (kept,) = (node for node in trees.walk(dataset.tree) if isinstance(node, ir.MemoizedMap))
    gone = weakref.ref(kept.table)
    del dataset, kept
    # What another thread still destroys is in circles with what is collected.
    wait_for_disposal()
    gc.collect()
    wait_for_disposal()
    assert gone() is None


STAGES = {
    "shuffled once": lambda dataset: dataset.shuffle(7, seed=2, reshuffle_each_iteration=False),
    "seeded": lambda dataset: dataset.shuffle(9, seed=4),
    "take": lambda dataset: dataset.take(25),
    "skip": lambda dataset: dataset.skip(3),
    "repeat": lambda dataset: dataset.repeat(2),
    "shard": lambda dataset: dataset.shard(3, 1),
    "prefetch": lambda dataset: dataset.prefetch(1),
    "ignore": lambda dataset: dataset.ignore_errors(),
    "filter": lambda dataset: dataset.filter(lambda x: x % 3 != 1),
    "batch": lambda dataset: dataset.batch(3).unbatch(),
}


@settings(max_examples=2 * settings().max_examples)
@given(
    before=st.lists(st.sampled_from(sorted(STAGES)), max_size=4),
    after=st.lists(st.sampled_from(sorted(STAGES)), max_size=3),
)
def test_whatever_moves_elements_before_and_after_they_are_the_same(before, after):
    dataset = NUMBERS
    for stage in before:
        dataset = STAGES[stage](dataset)
    dataset = dataset.map(inverse).ignore_errors()
    for stage in after:
        dataset = STAGES[stage](dataset)
    done = rewrite(
        extract(dataset),
        [rule for rule in catalogue() if rule.name == RULE],
        keeps=Keeps.SEQUENCE,
        measurements=AlwaysFaster(),
    )
    # How many orders a part of repeated ones has drawn from a seed depends on how far TensorFlow read ahead.
    epochs = 1 if repeats_a_seeded_shuffle(done.before) else 3
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=epochs) is None
