"""Trees are changed without taking apart what two branches share."""

import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, named

Dataset = tf.data.Dataset


def shared():
    mixed = (
        Dataset.range(12)
        .shuffle(12, seed=5, reshuffle_each_iteration=False)
        .enumerate()
        .map(lambda place, x: place + x)
    )
    return mixed.concatenate(mixed.take(3))


def test_what_does_not_change_stays_the_same_object():
    tree = extract(Dataset.range(9).shuffle(3).map(lambda x: x + 1).batch(2))
    after = trees.substitute(tree, tree, ir.Prefetch(input=tree.input))
    assert after.input is tree.input
    assert trees.substitute(tree, ir.Prefetch(input=tree), tree) is tree
    assert trees.transform(tree, lambda node: node) is tree


def test_a_node_that_is_used_twice_is_folded_once_and_after_what_it_reads_from():
    tree = extract(shared())
    made = []

    def count(node, inputs):
        made.append(node)
        return 1 + sum(inputs)

    total = trees.fold(tree, count)
    assert made == list(trees.inputs_first(tree))
    assert len(made) == len({*map(id, made)})
    assert total == len(list(trees.walk(tree))) > len(made)


def test_a_shuffle_that_two_branches_share_stays_one_when_one_of_them_is_rewritten():
    tree = extract(shared())
    done = rewrite(tree, [named("select_before_map")], keeps=Keeps.SEQUENCE, measurements=Answers())
    assert [step.rule for step in done.steps] == ["select_before_map"]
    first, second = ([each for each in trees.walk(part) if isinstance(each, ir.Shuffle)] for part in done.after.inputs)
    assert first[0] is second[0]
    assert compare(shared(), build(done.after), Keeps.SEQUENCE) is None
