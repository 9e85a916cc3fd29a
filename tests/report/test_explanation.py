"""What is the same in many branches is told once."""

import tensorflow as tf

import autopipe

Dataset = tf.data.Dataset


def test_steps_and_findings_of_branches_that_are_alike_stand_once_and_are_counted():
    branches = [Dataset.range(100).take(-1).shuffle(20).repeat() for _ in range(6)]
    explanation = autopipe.optimize(Dataset.sample_from_datasets(branches).batch(4), seconds=0).explain()
    text = str(explanation)
    assert "  1-6. drop_idle_stage  keeps sequence" in text
    assert "  7. draw_many_choices" in text
    assert "  8. prefetch_at_end" in text
    assert text.count("AP108") == 1
    assert "AP108  at shuffle(20) at 6 places" in text
    told = explanation.to_dict()
    assert len(told["steps"]) == 8
    assert [finding["code"] for finding in told["findings"]].count("AP108") == 6


def test_unset_knobs_are_those_of_the_dataset_also_where_its_author_chose_the_threads():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    for written in (Dataset.range(9).batch(2), Dataset.range(9).batch(2).with_options(options)):
        dataset = autopipe.optimize(written, seconds=0)
        assert dataset.explain().unset == dataset.knobs


def test_a_single_step_and_a_single_finding_are_not_counted():
    text = str(autopipe.optimize(Dataset.range(100).take(-1).shuffle(20), seconds=0).explain())
    assert "  1. drop_idle_stage  keeps sequence" in text
    assert "places" not in text


def test_sides_that_are_left_as_they_are_for_the_same_reason_are_told_once():
    def side():
        return tf.data.Dataset.range(9).map(lambda x: tf.random.uniform([2])).cache().batch(3)

    text = str(autopipe.optimize(tf.data.Dataset.zip((side(), side())), seconds=0).explain())
    assert text.count("Left as it is") == 1
    assert "cache() at 2 places, and all before it: what it holds was drawn" in " ".join(text.split())
