"""Functions from real life: cut, batched and looked through, they do what they did."""

import contextlib
import random
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf
from real_functions import COUNT, FUNCTIONS

from autopipe.functions.analysis.effects import Effects, effects
from autopipe.functions.analysis.failures import may_fail
from autopipe.functions.analysis.rounding import rounds_alike
from autopipe.functions.batched.batchable_part import split_batchable_part
from autopipe.functions.batched.exact import computes_exactly
from autopipe.functions.batched.vectorize import NotVectorizableError, vectorize
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.parts.draws import draw_first
from autopipe.functions.regrouped import regrouped
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract, function_of

pytestmark = pytest.mark.filterwarnings("ignore")
EFFECTS = {
    "generator": {
        *("AugMix CutMix MixUp Pipeline RandAugment Sequential Solarization keras.random".split()),
        *("augment from a generator,layers and a generator,noise from generators,shared generator".split(",")),
        *(name for name in FUNCTIONS if name.startswith("Random")),
    },
    "seeded_random": set(
        "augment seeded,contrastive,cut mix,decode and crop,draws in a branch,inception crop,layers and a generator,"
        "masked tokens,quarter turns seeded,scale seeded,segmentation records,shifted sound".split(",")
    ),
    "unseeded_random": set(
        "augment,cutout,jpeg noise,masked spectrum,maybe gray,mix up,quarter turns,rand augment,scale,two views".split(
            ","
        )
    ),
    "variable_reads": {"STFTSpectrogram", "function with a variable", "layer in a branch", "model"},
    "other": {"layer in a branch"},
}
DRAWING_IN_ORDER = sorted((EFFECTS["generator"] | EFFECTS["seeded_random"]) & set(FUNCTIONS) - {"draws in a branch"})
DRAWING_FREELY = sorted(EFFECTS["unseeded_random"])


@cache
def tree_of(name):
    return extract(FUNCTIONS[name]())


@contextlib.contextmanager
def variables_kept(fn):
    """Leave the variables of a function as they were."""
    values = [(variable, variable.read_value()) for variable in fn.concrete.variables]
    yield
    for variable, value in values:
        variable.assign(value)


def read(node, fn):
    """Return the elements as flat arrays."""
    return arrays(tensors(node, fn))


def tensors(node, fn):
    with variables_kept(fn):
        return [tf.nest.flatten(element, expand_composites=True) for element in build(node)]


def arrays(elements):
    return [[np.asarray(part.numpy()) for part in element] for element in elements]


@cache
def given(name):
    """Return what a function gives, which is read once for all its tests."""
    tree = tree_of(name)
    return tensors(tree, tree.fn)


def given_in_batches(name):
    """Return it as ``batch(3)`` hands it on."""
    tree = tree_of(name)
    if any(not isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(tree.fn.output_spec)):
        return read(ir.Batch(input=tree, batch_size=3), tree.fn)
    elements = given(name)
    batches = (elements[start : start + 3] for start in range(0, len(elements), 3))
    return arrays([tf.stack(parts) for parts in zip(*batch, strict=True)] for batch in batches)


def assert_same(expected, made, *, exact=True):
    assert [[part.shape for part in element] for element in made] == [[p.shape for p in each] for each in expected]
    for one, other in zip(expected, made, strict=True):
        for theirs, ours in zip(one, other, strict=True):
            assert ours.dtype == theirs.dtype
            if exact or not np.issubdtype(theirs.dtype, np.inexact):
                np.testing.assert_array_equal(ours, theirs)
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def some_cuts(fn, count):
    """Return so many of the cuts at the output of one op, with the inputs that the rest needs."""
    cuts = [
        [tensor, *fn.element_inputs]
        for op in fn.concrete.graph.get_operations()
        for tensor in op.outputs
        if tensor.dtype != tf.resource and op.type not in {"Const", "Placeholder"}
    ]
    return random.Random(len(cuts)).sample(cuts, min(count, len(cuts)))


def test_every_preprocessing_layer_of_keras_is_here():
    (base,) = keras.layers.Rescaling.__bases__
    every = {name for name, layer in vars(keras.layers).items() if isinstance(layer, type) and issubclass(layer, base)}
    assert every <= {name.split()[0] for name in FUNCTIONS}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_effects_are_those_it_has(name):
    found = effects(tree_of(name).fn)
    kinds = {kind for kind in Effects.__dataclass_fields__ if getattr(found, kind)}
    assert kinds == {kind for kind, names in EFFECTS.items() if name in names}


def parts_cut(fn, tree, count=1):
    """Yield what the two parts give together, and whether bit for bit, for so many cuts, those that are legal."""
    drawing = not effects(fn).pure
    for cut in some_cuts(fn, count):
        with contextlib.suppress(IllegalCutError) if drawing else contextlib.nullcontext():
            first, rest = split(fn, cut)
            alike = sum(regrouped(part.concrete.graph) for part in (first, rest)) == regrouped(fn.concrete.graph)
            yield ir.Map(input=ir.Map(input=tree, fn=first), fn=rest), alike


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(DRAWING_FREELY)))
def test_cut_anywhere_it_gives_what_it_gave(name):
    tree = tree_of(name)
    expected = arrays(given(name))
    assert len(expected) in {COUNT, COUNT // 2}
    for both, alike in parts_cut(tree.fn, tree.input):
        assert build(both).element_spec == build(tree).element_spec
        assert_same(expected, read(both, tree.fn), exact=alike)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", DRAWING_IN_ORDER)
def test_what_is_drawn_first_and_used_in_parallel_is_what_was_drawn(name):
    tree = tree_of(name)
    drawing, rest = draw_first(tree.fn)
    assert effects(drawing) == effects(tree.fn)
    assert effects(rest).pure
    expected = arrays(given(name))
    drawn = ir.Map(input=tree.input, fn=drawing)
    assert_same(expected, read(ir.Map(input=drawn, fn=rest, num_parallel_calls=4), tree.fn))

    # The whole is cut in another test.
    for using, alike in parts_cut(rest, drawn):
        assert_same(expected, read(using, tree.fn), exact=alike)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DRAWING_FREELY)
def test_cut_anywhere_it_still_draws_for_each_element(name):
    tree = tree_of(name)
    again = extract(build(tree.input).take(1).repeat(24))
    for both, _ in parts_cut(tree.fn, again, count=2):
        assert build(both).element_spec == build(tree).element_spec
        assert len({b"".join(part.tobytes() for part in element) for element in read(both, tree.fn)}) > 1


REASONS = [
    "has no batched form",
    "may differ",
    "not a plain tensor",
    "TensorFlow cannot batch it",
    "may not happen once for each",
]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_batched_it_gives_what_it_gave_or_the_reason_why_not(name):
    tree = tree_of(name)
    try:
        batched = vectorize(tree.fn, None)
    except NotVectorizableError as error:
        refused = str(error)
    else:
        refused = None
    if refused:
        assert [reason for reason in REASONS if reason in refused]
        return
    assert effects(tree.fn).pure
    batches = ir.Batch(input=tree.input, batch_size=3)
    made = read(ir.Map(input=batches, fn=batched), tree.fn)
    assert_same(given_in_batches(name), made, exact=computes_exactly(tree.fn))


@pytest.mark.one_in(20)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_with_its_end_batched_it_gives_what_it_gave(name):
    tree = tree_of(name)
    parts = split_batchable_part(tree.fn, None)
    if parts is None:
        return
    first, rest, batched = parts
    assert effects(rest).pure
    assert effects(first) == effects(tree.fn)
    drawn = elements_of(ir.Map(input=tree.input, fn=first), tree.fn)
    made = read(ir.Map(input=ir.Batch(input=drawn, batch_size=3), fn=batched), rest)
    exact, alike = computes_exactly(rest), rounds_alike(tree.fn, first, rest)
    if name not in DRAWING_FREELY:
        assert_same(given_in_batches(name), made, exact=exact and alike)
    if name in DRAWING_FREELY or (exact and not alike):
        one_by_one = read(ir.Batch(input=ir.Map(input=drawn, fn=rest), batch_size=3), rest)
        assert_same(one_by_one, made, exact=exact)


def elements_of(node, fn):
    """Hold the elements of a pipeline, so that two readers get the same draws."""
    with variables_kept(fn):
        elements = list(build(node))
    stacked = tf.nest.map_structure(lambda *parts: tf.stack(parts), *elements)
    return extract(tf.data.Dataset.from_tensor_slices(stacked))


@pytest.mark.parametrize("name", ["sums", "products", "wrapping cast"])
def test_what_rounds_or_wraps_otherwise_in_a_batch_is_not_called_exact(name):
    assert not computes_exactly(tree_of(name).fn)


def of_unknown_sizes(function):
    spec = tf.TensorSpec((None, None, 3))
    return function_of(tf.data.Dataset.from_generator(lambda: iter(()), output_signature=spec).map(function))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / 255.0 - [0.4, 0.5, 0.6],
        lambda x: x * x,
        lambda x: tf.cond(tf.size(x) > 3, lambda: x * 2, lambda: x),
        lambda x: tf.where(tf.ones((1, 1, 3)) > 0, x, 0.0),
        tf.function(lambda x: 1 - x),
    ],
)
def test_operands_that_fit_whatever_the_size_of_an_image_never_fail(function):
    assert may_fail(of_unknown_sizes(function)) is None


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: x + tf.ones((4, 4, 3)), "AddV2"),
        (lambda x: tf.where(x > 0, x, tf.ones((4, 4, 3))), "SelectV2"),
        (lambda x: tf.cond(tf.size(x) > 3, lambda: x * tf.ones((4, 4, 3)), lambda: x), "Mul"),
        (lambda x: tf.function(lambda y: y * tf.ones((4, 4, 3)))(x), "Mul"),
        (lambda x: tf.random.stateless_uniform([tf.cast(x[0, 0, 0], tf.int32)], [1, 2]), "Stateless|Strided"),
        (lambda x: tf.one_hot(1, tf.cast(tf.reduce_sum(x), tf.int32)), "OneHot|Sum"),
    ],
)
def test_operands_that_may_not_fit_may_fail(function, op):
    assert any(each in may_fail(of_unknown_sizes(function)) for each in op.split("|"))
