"""A vectorized function gives for a batch what the function gives for each element."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.functions.batched.exact import computes_exactly, jumps_in_batch
from autopipe.functions.batched.vectorize import NotVectorizableError, vectorize, why_not_vectorizable
from autopipe.functions.joined.compose import compose
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps
from autopipe.verify import compare

IMAGES = np.random.default_rng(0).random((6, 4, 5, 3)).astype("float32")

FUNCTIONS = {
    "normalize": (lambda x: (x - 0.5) / 0.25, True),
    "flip": (lambda x: tf.reverse(x, [1]), True),
    "crop": (lambda x: x[1:3, 2:], True),
    "structure": (lambda x: {"image": x, "label": (tf.one_hot(1, 4), x[0, 0, 0] > 0.5)}, True),
    "constant": (lambda x: tf.constant([1, 2]), True),
    "rescaling layer": (keras.layers.Rescaling(2.0, offset=1.0), True),
    "gamma": (lambda x: x**2.2, False),
    "reduction": (lambda x: tf.reduce_mean(x, axis=[0, 1]), False),
    "diagonal": (lambda x: (tf.linalg.tensor_diag(x[0, 0]), tf.linalg.tensor_diag_part(x[:3, 0])), False),
    "matrix": (lambda x: tf.linalg.matmul(x[..., 0], x[..., 1], transpose_b=True), False),
    "branch": (lambda x: tf.cond(x[0, 0, 0] > 0.5, lambda: x * 2, lambda: x), False),
    "argmax": (lambda x: tf.argmax(tf.reshape(x, [-1])), False),
    "resize": (lambda x: tf.image.resize(x, (3, 2)), True),
    "resize to nearest": (lambda x: tf.image.resize(x, (8, 9), "nearest"), True),
    "resize bicubic": (lambda x: tf.image.resize(x, (3, 2), "bicubic"), True),
    "resizing layer": (keras.layers.Resizing(3, 3), True),
    "roll": (lambda x: tf.roll(x, 1, 1), False),
    "pad": (lambda x: tf.pad(x, [[1, 0], [0, 1], [0, 0]]), False),
    "checked": (lambda x: (tf.debugging.assert_less(x, 2.0), x)[1], False),
    "transposed": (lambda x: tf.transpose(x, [2, 0, 1]), True),
    "clip": (lambda x: tf.clip_by_value(x, 0.2, 0.8), True),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("static", [None, 6])
def test_equals_the_function_of_each_element(name, static):
    function, exact = FUNCTIONS[name]
    fn = extract(tf.data.Dataset.from_tensor_slices(IMAGES).map(function)).fn

    batched = vectorize(fn, static).concrete(tf.constant(IMAGES))

    one_by_one = [fn.concrete(tf.constant(image)) for image in IMAGES]
    for ours, theirs in zip(batched, zip(*one_by_one, strict=True), strict=True):
        compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
        compare(ours.numpy(), tf.stack(theirs).numpy(), **({} if exact else {"rtol": 1e-5}))
    assert computes_exactly(fn) or not exact


ROWS = tf.constant(np.random.default_rng(1).random((12, 3)))
LOOKUPS = {
    "row": lambda x: ROWS[x],
    "row from the end": lambda x: ROWS[-1 - x],
    "row at a smaller number": lambda x: (ROWS[tf.cast(x, tf.int32)], x),
    "row of a row": lambda x: ROWS[tf.range(12)[x]],
    "rows behind it": lambda x: tf.ensure_shape(tf.gather(ROWS, tf.range(x, x + 5, 2)), (3, 3)),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_each_element_of_a_batch_takes_rows_of_its_own(name):
    places = tf.range(7, dtype=tf.int64)
    fn = extract(tf.data.Dataset.range(7).map(LOOKUPS[name])).fn
    one_by_one = zip(*[fn.concrete(place) for place in places], strict=True)
    for ours, theirs in zip(vectorize(fn, None).concrete(places), one_by_one, strict=True):
        np.testing.assert_array_equal(ours.numpy(), tf.stack(theirs).numpy())


@pytest.mark.parametrize("name", ["row", "row from the end"])
@pytest.mark.parametrize("place", [12, -13])
def test_a_row_that_is_not_there_is_an_error_in_a_batch_too(name, place):
    fn = extract(tf.data.Dataset.range(7).map(LOOKUPS[name])).fn
    for function, at in ((fn, tf.constant(place, tf.int64)), (vectorize(fn, None), tf.constant([0, place], tf.int64))):
        with pytest.raises(tf.errors.InvalidArgumentError):
            function.concrete(at)


@pytest.mark.parametrize(
    "function", [lambda x: ROWS[x, 1], lambda x: tf.ensure_shape(ROWS[x : x + 2], (2, 3)), lambda x: ROWS[:, x]]
)
def test_other_slices_that_change_are_refused(function):
    fn = extract(tf.data.Dataset.range(7).map(function)).fn
    with pytest.raises(NotVectorizableError, match="StridedSlice has no batched form"):
        vectorize(fn, None)


def of_size_bare(x):
    tf.raw_ops.Assert(condition=x < 5, data=[x])
    return x * 2


def of_size(x):
    tf.debugging.assert_less(x, tf.constant(5, tf.int64))
    return x


def of_size_for_a_constant(x):
    tf.debugging.Assert(x < 5, [x])
    return tf.constant([1, 2])


def finite(x):
    tf.debugging.check_numerics(1 / tf.cast(x - 5, tf.float32), "infinite")
    return x * 2


@pytest.mark.parametrize("function", [of_size_bare, of_size, of_size_for_a_constant, finite])
def test_every_element_is_checked_though_no_output_waits_for_it(function):
    batched = vectorize(extract(tf.data.Dataset.range(3).map(function)).fn, None).concrete

    batched(tf.constant([1, 2, 4], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError):
        batched(tf.constant([1, 5, 4], tf.int64))


def test_a_check_of_a_constant_in_a_branch_is_refused():
    def small(x):
        tf.cond(x < 5, lambda: tf.no_op(), lambda: tf.debugging.Assert(False, [x]))
        return x

    with pytest.raises(NotVectorizableError, match="checks what does not depend on the element"):
        vectorize(extract(tf.data.Dataset.range(3).map(small)).fn, None)


def test_the_batched_form_has_the_spec_of_a_batch():
    made = tf.data.Dataset.from_tensor_slices(IMAGES).map(lambda x: {"x": x, "sum": tf.reduce_sum(x)})
    batched = vectorize(extract(made).fn, None)
    assert batched.output_spec == made.batch(2).element_spec
    assert batched.name == "vectorized <lambda>"


@pytest.mark.filterwarnings("ignore")
def test_a_function_with_effects_is_refused():
    made = tf.data.Dataset.range(3).map(lambda x: tf.random.uniform(()))
    with pytest.raises(NotVectorizableError, match="which in a batch may not happen once for each element"):
        vectorize(extract(made).fn, None)


def test_an_op_without_a_batched_form_is_named():
    made = tf.data.Dataset.from_tensor_slices(["x"]).map(lambda x: tf.io.decode_jpeg(x)[0, 0, 0])
    with pytest.raises(NotVectorizableError, match="DecodeJpeg"):
        vectorize(extract(made).fn, None)


def rows(x):
    return tf.cast(x[:2, 0, 0] * 5, tf.int32)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.switch_case(tf.cast(x[0, 0, 0], tf.int32), [lambda: x, lambda: x * 2]), "StatelessCase"),
        (lambda x: tf.pad(x, [[1, 0], [0, 1], [0, 0]], constant_values=7.0), "PadV2"),
        (lambda x: tf.roll(x, 1, -1), "Roll"),
        (lambda x: tf.transpose(x, [-1, 0, 1]), "Transpose"),
        (lambda x: tf.cast(tf.raw_ops.Cast(x=x, DstT=tf.bfloat16, Truncate=True), tf.float32), "Cast"),
        (lambda x: tf.io.decode_csv(tf.strings.as_string(x[0, 0, 0]), [[0.0]], na_value="NA"), "DecodeCSV"),
        (lambda x: tf.strings.format("{}", (x,)), "StringFormat"),
        (lambda x: tf.reduce_sum(tf.slice(x, [tf.cast(x[0, 0, 0] * 3, tf.int32), 0, 0], [-1, 5, 3])), "Slice"),
        (lambda x: tf.math.unsorted_segment_sum(x, tf.cast(x[:, 0, 0] * 3, tf.int32), 2), "UnsortedSegmentSum"),
        (lambda x: tf.sparse.segment_sum(x, rows(x), [0, 0])[0], "SparseSegmentSum"),
        (lambda x: tf.sparse.segment_mean(x, rows(x), [0, 0])[0], "SparseSegmentMean"),
        (lambda x: tf.sparse.segment_sqrt_n(x, rows(x), [0, 0], num_segments=2), "SparseSegmentSqrtNWithNumSegments"),
        (
            lambda x: tf.raw_ops.SparseSegmentSumGrad(
                grad=x, indices=tf.constant([0, 1]), segment_ids=tf.constant([0, 0]), output_dim0=2
            ),
            "SparseSegmentSumGrad",
        ),
        (lambda x: tf.cond(x[0, 0, 0] > 0.5, lambda: tf.roll(x, 1, -1), lambda: x), "Roll"),
        (lambda x: tf.cond(x[0, 0, 0] > 0.5, lambda: tf.squeeze(x[:1]), lambda: x[0]), "Squeeze"),
        (lambda x: tf.gather_nd(x, [[9, 9]], bad_indices_policy="IGNORE"), "GatherNd"),
        (
            lambda x: tf.raw_ops.TensorScatterUpdate(
                tensor=x, indices=[[9]], updates=[x[0]], bad_indices_policy="IGNORE"
            ),
            "TensorScatterUpdate",
        ),
    ],
)
def test_an_op_that_tensorflow_batches_wrongly_is_named(function, op):
    made = tf.data.Dataset.from_tensor_slices(IMAGES).map(function)
    with pytest.raises(NotVectorizableError, match=f"its op {op} has no batched form"):
        vectorize(extract(made).fn, None)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.random.stateless_categorical(x[0], 2, [1, 2]), "StatelessMultinomial"),
        (
            lambda x: tf.raw_ops.StatelessRandomUniform(shape=[3], seed=tf.cast(x[0, 0, :2], tf.int32)),
            "StatelessRandomUniform",
        ),
        (lambda x: tf.linalg.tensor_diag(x[0]), "Diag"),
        (lambda x: tf.linalg.tensor_diag_part(tf.reshape(x[:4, :4, 0], [2, 2, 2, 2])), "DiagPart"),
    ],
)
def test_an_op_of_which_a_batch_would_be_a_loop_is_named(function, op):
    made = tf.data.Dataset.from_tensor_slices(IMAGES).map(function)
    with pytest.raises(NotVectorizableError, match=f"its op {op} has no batched form"):
        vectorize(extract(made).fn, None)


@pytest.mark.parametrize("function", [lambda x: tf.squeeze(x[:1]), lambda x: tf.squeeze(x[:, :1], 1), tf.norm])
def test_a_batch_of_one_keeps_its_side_where_sides_of_1_are_dropped(function):
    fn = extract(tf.data.Dataset.from_tensor_slices(IMAGES).map(function)).fn
    (batched,) = vectorize(fn, None).concrete(tf.constant(IMAGES[:1]))
    np.testing.assert_allclose(batched, function(IMAGES[0])[np.newaxis], rtol=1e-5)


def test_sides_of_unknown_length_are_not_dropped_by_the_batch():
    many = tf.ones([1000], tf.int32)

    def part(x):
        return tf.reduce_sum(tf.squeeze(x[: many[0]]))

    with pytest.raises(NotVectorizableError, match="Squeeze"):
        vectorize(extract(tf.data.Dataset.from_tensor_slices(IMAGES).map(part)).fn, None)


WORDS = ["Ab c", "12", "", "d\u00e9", "1.5", "a", "zz"]
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "zz"], tf.constant([1, 2], tf.int64)), -1)

TEXT_FUNCTIONS = {
    "lower": tf.strings.lower,
    "upper": lambda x: tf.strings.upper(x, encoding="utf-8"),
    "strip": tf.strings.strip,
    "length": tf.strings.length,
    "replace": lambda x: tf.strings.regex_replace(x, "[a-c]", "-"),
    "match": lambda x: tf.strings.regex_full_match(x, "[a-z]+"),
    "hash": lambda x: tf.strings.to_hash_bucket_fast(x, 7),
    "join": lambda x: tf.strings.join([x, "!", tf.strings.lower(x)], "/"),
    "substring": lambda x: tf.strings.substr(x, 0, 1),
    "number": lambda x: tf.strings.to_number(tf.strings.join(["1", tf.strings.as_string(tf.strings.length(x))])),
    "base64": tf.io.encode_base64,
    "table": lambda x: {"a": TABLE.lookup(x), "b": TABLE.lookup(tf.stack([x, "a"]))},
    "keras lookup": keras.layers.StringLookup(vocabulary=["a", "zz"]),
    "csv": lambda x: tf.io.decode_csv(tf.strings.join(["3,", tf.strings.as_string(tf.strings.length(x))]), [0, 0.5]),
}


@pytest.mark.parametrize("name", TEXT_FUNCTIONS)
def test_text_and_lookups_give_the_same_alone_and_in_a_batch(name):
    fn = extract(tf.data.Dataset.from_tensor_slices(WORDS).map(TEXT_FUNCTIONS[name])).fn

    batched = vectorize(fn, None).concrete(tf.constant(WORDS))

    one_by_one = [fn.concrete(tf.constant(word)) for word in WORDS]
    for ours, theirs in zip(batched, zip(*one_by_one, strict=True), strict=True):
        np.testing.assert_array_equal(ours.numpy(), tf.stack(theirs).numpy())
    assert computes_exactly(fn)


@pytest.mark.parametrize("computed", [lambda z: z * 0.3, lambda z: 1 / z, tf.square, tf.sign, tf.sqrt])
def test_complex_numbers_may_round_otherwise_in_a_batch_and_real_ones_do_not(computed):
    def of(dtype):
        return extract(tf.data.Dataset.from_tensor_slices(tf.cast([0.3, 0.4], dtype)).map(computed)).fn

    assert computes_exactly(of(tf.float32))
    assert not computes_exactly(of(tf.complex64))


@pytest.mark.parametrize("dtype", [tf.float64, tf.complex64, tf.complex128])
def test_what_is_beyond_the_range_of_small_whole_numbers_may_become_another_in_a_batch(dtype):
    numbers = tf.data.Dataset.from_tensor_slices(tf.cast([0.5, 300.7], dtype))
    small, large = (extract(numbers.map(lambda x, to=to: tf.cast(x, to))).fn for to in (tf.uint8, tf.int64))
    assert not computes_exactly(small)
    assert jumps_in_batch(small) == "Cast"
    assert computes_exactly(large)


def record(index):
    features = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[index])),
        "row": tf.train.Feature(float_list=tf.train.FloatList(value=[index, 0.5])),
        "lengths": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * (index % 4))),
        "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"t"] * (index % 3))),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


RECORDS = [record(index) for index in range(7)]
FEATURES = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "row": tf.io.FixedLenFeature([2], tf.float32),
    "absent": tf.io.FixedLenFeature([], tf.float32, -1.0),
}
SPARSE = {**FEATURES, "tags": tf.io.VarLenFeature(tf.string), "none": tf.io.VarLenFeature(tf.int64)}


def parsed(features, use=lambda parsed: parsed):
    return tf.data.Dataset.from_tensor_slices(RECORDS).map(lambda x: use(tf.io.parse_single_example(x, features)))


@pytest.mark.parametrize(
    "dataset",
    [
        parsed(FEATURES),
        parsed(SPARSE),
        parsed(FEATURES, lambda one: (one, one.pop("label"))),
        parsed(SPARSE, lambda one: ({"tags": one["tags"], "twice": one["row"] * 2}, tf.one_hot(one["label"], 3))),
        parsed(SPARSE, lambda one: one["row"][0]),
    ],
)
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_examples_are_parsed_by_the_batch(dataset, drop_remainder):
    expected = dataset.batch(3, drop_remainder=drop_remainder)
    tree = extract(dataset)
    batches = ir.Batch(input=tree.input, batch_size=3, drop_remainder=drop_remainder)
    made = build(ir.Map(input=batches, fn=vectorize(tree.fn, 3 if drop_remainder else None)))

    assert made.element_spec == expected.element_spec
    assert compare(expected, made, Keeps.SEQUENCE) is None
    assert computes_exactly(tree.fn)


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
@pytest.mark.parametrize(
    "use",
    [
        lambda one: one["lengths"],
        lambda one: {"tags": one["tags"], "more": (one["label"], one["lengths"], one["tags"])},
        lambda one: (one["none"], one["lengths"], one["row"] * 2),
    ],
)
def test_ragged_features_are_parsed_by_the_batch(use, splits):
    features = {**FEATURES, "none": tf.io.VarLenFeature(tf.int64)}
    features |= {"tags": tf.io.RaggedFeature(tf.string), "lengths": tf.io.RaggedFeature(tf.float32)}
    dataset = parsed(features, use).ragged_batch(3, row_splits_dtype=splits)
    tree = extract(dataset)
    whole = compose(tree.input.input.fn, tree.input.fn)
    made = build(ir.Map(input=tree.on(tree.input.input.input), fn=vectorize(whole, None)))

    assert made.element_spec == dataset.element_spec
    assert compare(dataset, made, Keeps.SEQUENCE) is None
    assert computes_exactly(whole)


@pytest.mark.parametrize(
    ("features", "use"),
    [
        ({"row": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}, lambda one: tf.size(one["row"])),
        ({"row": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}, lambda one: one),
        ({"row": tf.io.RaggedFeature(tf.float32)}, lambda one: one),
        ({"tags": tf.io.VarLenFeature(tf.string)}, lambda one: tf.size(one["tags"].values)),
        ({"tags": tf.io.VarLenFeature(tf.string)}, lambda one: tf.sparse.reset_shape(one["tags"])),
    ],
)
def test_what_is_parsed_with_a_changing_length_is_refused_unless_it_is_only_passed_on(features, use):
    with pytest.raises(NotVectorizableError, match="may differ|SparseTensor"):
        vectorize(extract(parsed(features, use)).fn, None)


LENGTHS = {"lengths": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}


def parsed_of_what_is_computed(text):
    lengths = tf.io.parse_single_example(tf.io.decode_base64(text), LENGTHS)["lengths"]
    return tf.reduce_max(lengths), tf.size(lengths)


def parsed_twice(text):
    lengths, tags = (tf.io.parse_single_example(tf.io.decode_base64(text), each) for each in (LENGTHS, SPARSE))
    return tf.size(lengths["lengths"]), tf.size(tags["tags"].values)


def parsed_in_a_branch(text):
    serialized = tf.io.decode_base64(text)
    return tf.cond(
        tf.strings.length(text) > 3,
        lambda: tf.size(tf.io.parse_single_example(serialized, LENGTHS)["lengths"]),
        lambda: 0,
    )


@pytest.mark.parametrize("use", [parsed_of_what_is_computed, parsed_twice, parsed_in_a_branch])
def test_a_length_of_what_is_parsed_is_that_of_the_element_and_not_of_the_longest_in_a_batch(use):
    texts = tf.data.Dataset.from_tensor_slices([tf.io.encode_base64(each) for each in RECORDS])
    with pytest.raises(NotVectorizableError, match="its op (ParseExampleV2|ParseSingleExample) has no batched form"):
        vectorize(extract(texts.map(use)).fn, None)


def with_tags_of_one_letter(one):
    tf.debugging.assert_equal(tf.strings.length(one["tags"].values), 1)
    return one["tags"]


def test_what_checks_parts_that_are_only_passed_on_is_refused():
    with pytest.raises(NotVectorizableError, match="checks what it parses"):
        vectorize(extract(parsed(SPARSE, with_tags_of_one_letter)).fn, None)


def test_a_default_that_comes_with_the_element_is_no_setting_of_a_batch():
    def parse(serialized, default):
        return tf.io.parse_single_example(
            serialized, {"a": tf.io.FixedLenFeature([], tf.float32, default_value=default)}
        )

    examples = tf.data.Dataset.from_tensor_slices(([b"", b""], [1.0, 2.0]))
    assert why_not_vectorizable(extract(examples.map(parse)).fn, None)
    assert [float(each["a"]) for each in autopipe.optimize(examples.map(parse), seconds=0)] == [1.0, 2.0]


@pytest.mark.parametrize(
    "branch",
    [
        lambda x, number: x @ tf.ones([3, 3]),
        lambda x, number: tf.slice(tf.pad(x, [[0, 1], [0, 0]]), [number % 2, 0], [3, 3]),
        lambda x, number: tf.compat.v1.where(x > 0, x, -x),
    ],
    ids=["product", "slice", "choice"],
)
def test_a_branch_that_no_element_of_a_batch_takes_fails_no_batch(branch):
    def function(x, number):
        return tf.cond(number < 6, lambda: branch(x, number), lambda: x)

    rows = tf.data.Dataset.from_tensor_slices((np.ones((7, 3, 3), np.float32), np.arange(7)))
    dataset = rows.map(function).batch(3)
    assert why_not_vectorizable(extract(rows.map(function)).fn, None)
    assert [len(batch) for batch in autopipe.optimize(dataset)] == [3, 3, 1]
