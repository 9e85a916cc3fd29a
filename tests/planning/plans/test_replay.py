"""A plan is done again as it was, without timing anything; what must be safe is proved again."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe import Plan
from autopipe.errors import ArgumentError, KnobError, PlanError
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.memory.machine import Machine
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.planning.plans.replay import replay
from autopipe.rules import Keeps, MeasurementError, Proof, Rewrite, catalogue, rule

Dataset = tf.data.Dataset
RULES = ("vectorize_map", "parallel_map", "prefetch_at_end")
CALLS = "map[vectorized scale].num_parallel_calls"


def scale(x):
    return tf.cast(x, tf.float32) / 2


def numbers():
    return Dataset.range(64).map(scale).batch(8)


def shift(x):
    return x + 1


def twice():
    return Dataset.range(64).map(scale).map(shift).batch(8)


def apart():
    return Dataset.range(64).map(scale).batch(8).unbatch().map(shift).batch(4)


def plan_for(dataset, **fields):
    return Plan(fingerprint(extract(dataset)), **fields)


@pytest.fixture
def _nothing_can_be_timed(monkeypatch):
    def refuse(*_, **__):
        raise MeasurementError("timed")

    for name in ("speed", "caching", "filling", "whole_speed"):
        monkeypatch.setattr(SampleMeasurements, name, refuse)


@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_the_rules_of_a_plan_are_applied_without_timing():
    assert "vectorize_map" not in autopipe.optimize(numbers()).plan.rules
    dataset = autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=RULES, knobs={CALLS: 3}))
    assert dataset.plan.rules == RULES
    assert dataset.knobs[CALLS] == 3
    assert not dataset.plan.carried.refused
    assert "because the plan found it to be faster" in str(dataset.explain())
    assert "inf" not in str(dataset.explain()).replace("information", "")
    np.testing.assert_array_equal(np.concatenate(list(dataset.as_numpy_iterator())), np.arange(64) / 2)


@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_a_plan_is_done_again_where_no_time_is_given_to_measure():
    plan = plan_for(numbers(), rules=RULES, knobs={CALLS: 3})
    dataset = autopipe.optimize(numbers(), plan=plan, seconds=0)
    assert dataset.plan.rules == RULES
    assert dataset.knobs[CALLS] == 3


@pytest.mark.parametrize(
    "moved",
    [
        lambda made: made.shuffle(9),
        lambda made: made.shuffle(64),
        lambda made: made.shuffle(64, seed=3),
        lambda made: made.repeat(2).shuffle(128),
    ],
    ids=["in part", "as a whole", "seeded", "repeated"],
)
@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_a_cache_of_a_plan_is_made_again_whatever_shuffle_waits_for_it(moved):
    def made():
        return moved(Dataset.range(64)).map(lambda x: tf.strings.length(tf.strings.as_string(x))).batch(8)

    dataset = autopipe.optimize(made(), plan=plan_for(made(), rules=("cache_fixed_work",)), seconds=0)
    assert dataset.plan.rules == ("cache_fixed_work",)


def test_there_is_more_time_to_prove_more_steps_where_none_is_given_to_measure(monkeypatch):
    given = []

    def noted(tree, *_, measurements, **__):
        given.append(measurements.seconds)
        return Rewriting(tree, tree, (), ())

    monkeypatch.setattr("autopipe.planning.plans.replay.rewrite", noted)
    for steps in (1, 60):
        autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=("parallel_map",) * steps), seconds=0)
    assert given[1] > 4 * given[0]


@pytest.mark.parametrize("rule", ["cache_results", "cache_zipped_results"])
@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_results_are_kept_by_number_again_where_a_shuffle_would_have_waited_long_for_a_cache(rule):
    def length(*texts):
        return sum(map(tf.strings.length, texts))

    def made():
        texts = Dataset.from_tensor_slices([str(number) for number in range(64)])
        whole = texts if rule == "cache_results" else Dataset.zip((texts, texts))
        return whole.shuffle(64, seed=3).map(length).batch(8)

    dataset = autopipe.optimize(made(), plan=plan_for(made(), rules=(rule,)), seconds=0)
    assert dataset.plan.rules == (rule,)


@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_a_plan_that_applied_a_rule_once_is_not_replayed_where_it_would_apply_twice():
    """Where it applies is found by measuring then, which is in vain here."""
    again = autopipe.optimize(twice(), plan=plan_for(twice(), rules=("vectorize_map",) * 2))
    assert again.plan.rules == ("vectorize_map",) * 2
    once = autopipe.optimize(twice(), plan=plan_for(twice(), rules=("vectorize_map",)))
    assert once.plan.rules == ()
    assert once.plan.carried.refused == ("vectorize_map",)


@pytest.mark.usefixtures("_nothing_can_be_timed")
@pytest.mark.parametrize(
    ("place", "functions"), [(1, ["vectorized shift", "scale"]), (4, ["shift", "vectorized scale"])]
)
def test_a_rule_is_applied_where_the_plan_says_and_nowhere_else(place, functions):
    plan = plan_for(apart(), rules=("vectorize_map",), places=(place,))
    dataset = autopipe.optimize(apart(), plan=plan)
    assert [step.place for step in dataset.explain().rewriting.steps] == [place]
    assert [node.fn.name for node in trees.walk(dataset.tree) if isinstance(node, ir.Map)] == functions
    assert (dataset.plan.rules, dataset.plan.places) == (plan.rules, plan.places)
    assert not dataset.plan.carried.left_out


@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_a_rule_that_does_not_apply_where_the_plan_says_is_not_applied_elsewhere():
    dataset = autopipe.optimize(apart(), plan=plan_for(apart(), rules=("vectorize_map",), places=(0,)))
    assert dataset.plan.rules == ()


def test_a_number_for_a_stage_that_measuring_anew_does_not_bring_is_left_out():
    plan = plan_for(numbers(), rules=("prefetch_at_end",), places=(7,), knobs={CALLS: 3})
    dataset = autopipe.optimize(numbers(), plan=plan)
    assert dataset.plan.rules == ("prefetch_at_end",)
    assert dataset.plan.carried.left_out == (CALLS,)
    assert f"left out, since their stages are not here: {CALLS}" in str(dataset.explain())


@pytest.mark.usefixtures("_nothing_can_be_timed")
def test_rules_are_applied_in_the_order_of_the_plan_where_it_is_not_that_of_their_phases():
    """One of an early phase may have been refused until a later one changed what it stands on."""
    late = ("parallel_map", "vectorize_map", "prefetch_at_end")
    assert autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=late)).plan.rules == late


class Worthwhile:
    """What it says of a time is its own affair."""

    def __init__(self, timed):
        self.timed = timed

    def check(self, site):
        return Proof(True, "it pays", timed=self.timed)


@rule(keeps=Keeps.SEQUENCE)
def drop_prefetch(node):
    if isinstance(node, ir.Prefetch):
        return Rewrite(node.input, (Worthwhile(timed=True), Worthwhile(timed=False)))
    return None


def test_the_plan_stands_for_what_was_timed_and_for_nothing_else():
    ahead = numbers().prefetch(2)
    plan, measurements = plan_for(ahead, rules=("drop_prefetch",)), SampleMeasurements()
    done = replay(extract(ahead), plan, [drop_prefetch], keeps=Keeps.SEQUENCE, measurements=measurements)
    assert [proof.because for proof in done.steps[0].proofs] == ["the plan found it to be faster", "it pays"]


def test_a_plan_with_a_number_for_a_stage_that_does_not_come_out_again_is_not_replayed():
    plan, measurements = plan_for(numbers(), rules=("prefetch_at_end",)), SampleMeasurements()
    rules = [each for each in catalogue() if each.name in plan.rules]
    assert replay(extract(numbers()), plan, rules, keeps=Keeps.SEQUENCE, measurements=measurements)
    plan = replace(plan, knobs={CALLS: 3})
    assert replay(extract(numbers()), plan, rules, keeps=Keeps.SEQUENCE, measurements=measurements) is None


def test_a_cache_that_does_not_fit_here_is_refused_and_its_knobs_are_left_out():
    plan = replace(autopipe.optimize(numbers(), rules=["prefetch_at_end"]).plan, machine={"cores": 2})
    plan = replace(
        plan, rules=("cache_fixed_work", "prefetch_at_end"), places=(), knobs={**plan.knobs, "map[gone].size": 2}
    )
    dataset = autopipe.optimize(numbers(), plan=plan, ram_budget=0)
    assert dataset.plan.rules == ("prefetch_at_end",)
    assert dataset.plan.carried.refused == ("cache_fixed_work",)
    assert dataset.plan.carried.left_out == ("map[gone].size",)
    assert "refused here: cache_fixed_work" in str(dataset.explain())
    assert "left out, since their stages are not here: map[gone].size" in str(dataset.explain())


@pytest.mark.parametrize(
    ("promised", "asked", "kept", "rules"),
    [
        ("training", "training", "training", ("shuffle_before_repeat",)),
        ("training", "sequence", "sequence", ()),
        ("sequence", "training", "sequence", ()),
    ],
)
def test_of_what_a_plan_promises_and_what_is_asked_for_the_stronger_counts(promised, asked, kept, rules):
    dataset = Dataset.range(9).repeat().shuffle(9)
    plan = replace(plan_for(dataset, rules=("shuffle_before_repeat",)), keeps=promised)
    optimized = autopipe.optimize(dataset, plan=plan, keeps=asked)
    assert (optimized.plan.keeps, optimized.plan.rules) == (kept, rules)
    account = autopipe.explain(dataset, plan=plan, keeps=asked, seconds=0)
    assert (account.plan.keeps, account.plan.rules) == (kept, rules)


def test_a_wrong_promise_is_named_where_a_plan_is_given_too():
    with pytest.raises(ArgumentError, match="keeps must be one of"):
        autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=RULES), keeps="all")


def test_rules_that_are_asked_for_outrank_those_of_the_plan():
    dataset = autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=RULES), rules=["prefetch_at_end"])
    assert dataset.plan.rules == ("prefetch_at_end",)


def test_a_rule_that_this_release_does_not_have_is_a_plan_error():
    with pytest.raises(PlanError, match="must name rules of this release.*'warp_drive'"):
        autopipe.optimize(numbers(), plan=plan_for(numbers(), rules=("warp_drive",)))


def test_another_tensorflow_is_named_where_the_fingerprint_differs():
    plan = Plan("0" * 16, versions={"tensorflow": "2.0.0"})
    with pytest.raises(PlanError, match=r"or TensorFlow has, which was 2\.0\.0 and is"):
        autopipe.optimize(numbers(), plan=plan)


@pytest.mark.parametrize("use", [autopipe.optimize, autopipe.explain])
def test_an_unknown_knob_is_refused_where_all_rules_apply(use):
    with pytest.raises(KnobError, match="'warp.speed'"):
        use(numbers(), plan=plan_for(numbers(), rules=("prefetch_at_end",), knobs={"warp.speed": 2}), seconds=0)


class TestOnAnotherMachine:
    @pytest.fixture(autouse=True)
    def _two_cores(self, monkeypatch):
        here = Machine(cores=2, memory_bytes=2**33, available_bytes=2**32, host="pod")
        monkeypatch.setattr(Machine, "here", lambda: here)

    @pytest.fixture
    def plan(self):
        return plan_for(
            numbers(),
            rules=RULES,
            knobs={CALLS: 16, "prefetch.buffer_size": 12, "thread_pool.size": 32},
            machine={"cores": 16, "host": "gpu-1"},
            measured={"objective": "speed", "before": 1.0, "after": 1.42, "lowest": 1.38, "highest": 1.47},
            versions={"tensorflow": "2.20.0"},
        )

    def test_calls_and_threads_are_scaled_and_buffers_stay(self, plan):
        knobs = autopipe.optimize(numbers(), plan=plan).knobs
        assert knobs[CALLS] == 2
        assert knobs["thread_pool.size"] == 4
        assert knobs["prefetch.buffer_size"] == 12

    def test_the_account_says_what_carries_over_in_a_line_each(self, plan):
        lines = [line.strip() for line in str(autopipe.optimize(numbers(), plan=plan).explain()).splitlines()]
        first = lines.index("From the plan") + 1
        said = " ".join(lines[first : lines.index("Changed, keeping training")])
        assert f"structure, which holds on any machine: {', '.join(RULES)} numbers:" in said
        assert (
            "numbers: measured speed 1 -> 1.42 (1.38 to 1.47), elsewhere: on gpu-1 with 16 cores; here are 2 cores"
            in said
        )
        assert f"scaled from 16 cores to 2 cores: {CALLS} 16 -> 2, thread_pool.size 32 -> 4; buffers stay" in said
        assert "versions: tensorflow 2.20.0 there and" in said
        assert "map(vectorized scale, calls=2)" in " ".join(lines)

    def test_programs_are_told_the_same(self, plan):
        account = autopipe.optimize(numbers(), plan=plan).explain().to_dict()
        told = account["plan"]
        assert told["rules"] == list(RULES)
        assert told["scaled"] == {CALLS: [16, 2], "thread_pool.size": [32, 4]}
        assert told["measured_elsewhere"] is True
        assert told["measured_on"] == {"cores": 16, "host": "gpu-1"}
        assert len(told["account"]) == 4
        assert "map(vectorized scale, calls=2)" in account["after"]

    def test_explain_shows_the_same_and_changes_nothing(self, plan):
        account = autopipe.explain(numbers(), plan=plan, seconds=0)
        assert account.to_dict()["plan"] == autopipe.optimize(numbers(), plan=plan).explain().to_dict()["plan"]

    def test_a_plan_that_is_saved_here_and_used_there_again_is_scaled_back(self, plan, tmp_path, monkeypatch):
        autopipe.optimize(numbers(), plan=plan).plan.save(tmp_path / "plan.json")
        there = Machine(cores=16, memory_bytes=2**33, available_bytes=2**32, host="gpu-1")
        monkeypatch.setattr(Machine, "here", lambda: there)
        dataset = autopipe.optimize(numbers(), plan=tmp_path / "plan.json")
        assert dataset.knobs[CALLS] == 16
        assert "on this machine" in str(dataset.explain())
