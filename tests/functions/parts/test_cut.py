"""A cut function: its second part, of what its first part gives, gives what it gave."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from retuning import flat

from autopipe.functions.analysis.effects import effects
from autopipe.functions.batched.vectorize import vectorize
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps
from autopipe.verify import compare

Dataset = tf.data.Dataset
VARIABLE = tf.Variable(3.0)
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["0", "1"], [5, 6]), -1)
DENSE = keras.layers.Dense(2, kernel_initializer="ones")
RESCALE = keras.Sequential([keras.layers.Rescaling(0.5), keras.layers.CenterCrop(2, 2)])


def image(x):
    return tf.reshape(tf.range(48.0) + tf.cast(x, tf.float32), (4, 4, 3))


def branches(x):
    pixels = image(x)
    flipped = tf.cond(x % 2 == 0, lambda: tf.image.flip_left_right(pixels), lambda: pixels)
    return flipped * 2, x


def nested_branches(x):
    pixels = image(x)
    return tf.cond(x > 2, lambda: tf.cond(x > 4, lambda: pixels, lambda: -pixels), lambda: pixels + 1)


def cases(x):
    return tf.switch_case(tf.cast(x % 3, tf.int32), [lambda: image(x), lambda: image(x) * 2, lambda: image(x) * 3])


def loop(x):
    pixels = image(x)
    _, total = tf.while_loop(lambda i, _: i < x, lambda i, t: (i + 1, t + tf.reduce_sum(pixels)), [x * 0, 0.0])
    return total, {"label": x}


def asserted(x):
    pixels = image(x)
    tf.debugging.assert_less(x, tf.constant(100, tf.int64))
    with tf.control_dependencies([tf.debugging.assert_all_finite(pixels, "finite")]):
        return tf.cast(pixels, tf.uint8), x


@tf.function
def called(pixels):
    return tf.reduce_mean(pixels, axis=-1) * VARIABLE


FUNCTIONS = {
    "arithmetic": lambda x: image(x) / 255.0 - 0.5,
    "dict and tuple": lambda x: {"image": image(x), "more": (x, tf.strings.as_string(x))},
    "branches": branches,
    "nested branches": nested_branches,
    "cases": cases,
    "loop": loop,
    "assertions": asserted,
    "call with a variable": lambda x: called(image(x)),
    "table": lambda x: (TABLE.lookup(tf.strings.as_string(x)), image(x)),
    "keras layers": lambda x: RESCALE(image(x)),
    "keras layer with weights": lambda x: DENSE(tf.reshape(image(x), (1, 48))),
    "ragged": lambda x: tf.RaggedTensor.from_row_lengths(tf.range(2 * x), [x, x]),
    "sparse": lambda x: tf.SparseTensor([[x % 3]], [x * 2], [3]),
    "optional": lambda x: tf.experimental.Optional.from_value(image(x)),
    "strings": lambda x: tf.strings.length(tf.strings.join([tf.strings.as_string(x), "a b"])),
    "split strings": lambda x: tf.strings.split(tf.strings.join([tf.strings.as_string(x), "a b"], " ")),
    "stateless draws": lambda x: tf.image.stateless_random_flip_left_right(image(x), tf.stack([x, x])),
}


def legal_cuts(fn):
    """Yield every cut at the output of one op, with the inputs that the rest needs."""
    for op in fn.concrete.graph.get_operations():
        for tensor in op.outputs:
            if tensor.dtype != tf.resource and op.type not in {"Const", "Placeholder"}:
                yield [tensor, *fn.element_inputs]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parts_of_a_function_cut_anywhere_give_what_it_gave(name):
    dataset = Dataset.range(6).map(FUNCTIONS[name])
    tree = extract(dataset)
    expected = None if name == "optional" else flat(dataset)
    tried = 0
    for cut in legal_cuts(tree.fn):
        first, second = split(tree.fn, cut)
        both = ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second)
        assert build(both).element_spec == dataset.element_spec
        if expected is not None:
            assert flat(build(both)) == expected
        tried += 1
    assert tried


def test_parts_can_be_cut_again_and_vectorized():
    tree = extract(Dataset.range(6).map(lambda x: tf.sqrt(image(x)) * 2 + 1))
    graph = tree.fn.concrete.graph
    (root,) = (op for op in graph.get_operations() if op.type == "Sqrt")
    first, rest = split(tree.fn, [root.outputs[0]])
    (product,) = (op for op in rest.concrete.graph.get_operations() if op.type == "Mul")
    second, third = split(rest, [product.outputs[0]])

    node = tree.input
    for fn in (first, second, third):
        node = ir.Map(input=node, fn=fn)
    assert compare(build(tree), build(node), Keeps.SEQUENCE) is None

    batches = ir.Batch(input=ir.Map(input=tree.input, fn=first), batch_size=3)
    batched = ir.Map(input=batches, fn=vectorize(rest, None))
    assert compare(build(tree).batch(3), build(batched), Keeps.SEQUENCE) is None


def test_captures_stay_live_in_both_parts():
    scale, offset = tf.Variable(1.0), tf.Variable(0.0)
    tree = extract(Dataset.range(3).map(lambda x: tf.cast(x, tf.float32) * scale + offset))
    (product,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Mul")
    first, second = split(tree.fn, [product.outputs[0]])
    parts = build(ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second))

    scale.assign(10.0)
    offset.assign(1.0)
    assert [float(each) for each in parts] == [1.0, 11.0, 21.0]


def test_an_assertion_stands_in_the_first_part_that_has_what_it_looks_at():
    def checked(x):
        pixels = tf.debugging.check_numerics(image(x), "before")
        return tf.debugging.check_numerics(tf.exp(pixels), "after")

    tree = extract(Dataset.range(6).map(checked))
    (power,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Exp")
    for part, message in zip(split(tree.fn, [power.inputs[0]]), (b"before", b"after"), strict=True):
        (check,) = (op for op in part.concrete.graph.get_operations() if op.type == "CheckNumerics")
        assert check.get_attr("message") == message


def test_an_assertion_that_fails_still_fails():
    def checked(x):
        tf.debugging.assert_less(x, tf.constant(3, tf.int64))
        return image(x) * 2

    tree = extract(Dataset.range(6).map(checked))
    (product,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Mul")
    first, second = split(tree.fn, [product.inputs[0]])
    seen = []
    with pytest.raises(tf.errors.InvalidArgumentError):
        for element in build(ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second)):
            seen.append(element)
    assert len(seen) == 3


def test_an_assertion_of_what_is_fixed_goes_before_one_of_what_is_drawn():
    """TensorFlow has it wait for that, as ``tf.image.resize_with_crop_or_pad`` writes both."""

    def scaled(x):
        size = tf.random.uniform((), 2, 4, tf.int32)
        tf.debugging.assert_less(size, 9)
        tf.debugging.assert_less(tf.cast(x, tf.int32), 3)
        return tf.image.resize(tf.exp(image(x)), [size, size])

    tree = extract(Dataset.range(6).map(scaled))
    (power,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Exp")
    first, second = split(tree.fn, [power.outputs[0]])
    kinds = [[op.type for op in part.concrete.graph.get_operations()] for part in (first, second)]
    assert [[kind.count(each) for each in ("Assert", "RandomUniformInt")] for kind in kinds] == [[1, 0], [1, 1]]
    made = iter(build(ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second)))
    assert [int(next(made).shape[0]) in {2, 3} for _ in range(3)] == [True] * 3
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(made)


def test_what_is_printed_after_a_print_of_the_second_part_does_not_go_before_it():
    def printing(x):
        power = tf.exp(image(x))
        tf.print(power)
        tf.print("done")
        return power

    tree = extract(Dataset.range(6).map(printing))
    (power,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Exp")
    with pytest.raises(IllegalCutError, match="both parts need what PrintV2"):
        split(tree.fn, [power.inputs[0]])


def test_effects_happen_once_and_in_their_part():
    count = tf.Variable(0)

    def counting(x):
        count.assign_add(1)
        return image(x) * 2

    tree = extract(Dataset.range(6).map(counting))
    (product,) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "Mul")
    first, second = split(tree.fn, [product.inputs[0]])
    assert effects(first).other
    assert effects(second).pure
    assert len(list(build(ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second)))) == 6
    assert int(count) == 6


def test_refuses_to_draw_twice_what_both_parts_need():
    def drawing(x):
        drawn = tf.random.uniform(())
        return drawn + 1, drawn + 2

    tree = extract(Dataset.range(3).map(drawing))
    (one, *_) = (op for op in tree.fn.concrete.graph.get_operations() if op.type == "AddV2")
    with pytest.raises(IllegalCutError, match=r"both parts need what RandomUniform \(test_cut.py:\d+\) gives"):
        split(tree.fn, [one.outputs[0]])


def test_refuses_a_second_part_without_its_input():
    tree = extract(Dataset.range(3).map(lambda x: (image(x), x)))
    reshaped = next(op for op in tree.fn.concrete.graph.get_operations() if op.type == "Reshape")
    with pytest.raises(IllegalCutError, match="needs the input args_0"):
        split(tree.fn, [reshaped.outputs[0]])


def test_refuses_handles_and_nothing():
    tree = extract(Dataset.range(3).map(lambda x: tf.cast(x, tf.float32) * VARIABLE))
    (handle,) = (tensor for tensor in tree.fn.concrete.inputs if tensor.dtype == tf.resource)
    with pytest.raises(IllegalCutError, match="handle"):
        split(tree.fn, [handle])
    with pytest.raises(IllegalCutError, match="at least one"):
        split(tree.fn, [])


def test_random_images_of_a_batch_keep_their_own_draws_after_a_cut():
    tree = extract(Dataset.range(64).map(lambda x: tf.image.random_flip_left_right(image(x * 0))))
    pixels = next(op for op in tree.fn.concrete.graph.get_operations() if op.type == "Reshape").outputs[0]
    first, second = split(tree.fn, [pixels])
    parts = build(ir.Map(input=ir.Map(input=tree.input, fn=first), fn=second))
    assert len(np.unique([element.numpy()[0, 0, 0] for element in parts])) == 2
