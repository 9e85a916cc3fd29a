"""Every rule alone and all together keep what they promise, on pipelines that nobody wrote for them.

``make test-deep`` tries thousands; the usual run tries some.
"""

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pipelines import made, recipes

from autopipe.errors import DatasetError
from autopipe.optimizer import Rewriting, rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps, catalogue
from autopipe.verify import compare, verify
from sides import AlwaysFaster

LIMIT = 60


def fits(before, after):
    """A type may become more exact, and must not become another."""
    assert after.is_subtype_of(before)


def rewritten(tree, rules, keeps):
    """Apply rules; a pipeline of which every element of a sample fails is refused with an error, and not counted."""
    try:
        return rewrite(tree, rules, keeps=keeps, measurements=AlwaysFaster())
    except DatasetError:
        assume(False)


def check(rewriting: Rewriting, keeps: Keeps) -> None:
    if not rewriting.steps:
        return
    assert all(step.keeps >= keeps for step in rewriting.steps)
    tf.nest.map_structure(fits, build(rewriting.before).element_spec, build(rewriting.after).element_spec)
    verify(rewriting, limit=LIMIT)


@given(recipe=recipes(), keeps=st.sampled_from(Keeps))
def test_all_rules_together_keep_what_they_promise(recipe, keeps):
    check(rewritten(extract(made(recipe)), catalogue(), keeps), keeps)


# One by one, rules take five times as long as all at once.
@settings(max_examples=settings().max_examples // 2)
@given(recipe=recipes(), keeps=st.sampled_from(Keeps))
def test_each_rule_alone_keeps_what_it_promises_and_comes_to_an_end(recipe, keeps):
    tree = extract(made(recipe))
    for rule in catalogue():
        done = rewritten(tree, [rule], keeps)
        check(done, keeps)
        if done.steps:
            assert not rewritten(done.after, [rule], keeps).steps


@given(recipe=recipes())
def test_extract_and_build_give_back_the_pipeline(recipe):
    tree = extract(made(recipe))
    # One that has drawn its only order is not made anew, but it is by the recipe.
    has_drawn = any(isinstance(node, ir.Opaque) and node.label == "ShuffleDataset" for node in trees.walk(tree))
    if not has_drawn and verify(Rewriting(tree, tree, (), ()), limit=LIMIT).count("keeping sequence"):
        assert compare(build(tree), recipe(), Keeps.SEQUENCE, epochs=1, limit=LIMIT) is None


@pytest.fixture(autouse=True)
def _no_notices(recwarn):
    """AutoGraph says that it cannot read functions made by functions; that is no concern of these tests."""
