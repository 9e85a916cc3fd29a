"""A plan of another machine is scaled to the cores of this one, and says so."""

import pytest
import tensorflow as tf

from autopipe.pipeline.knobs import Knob
from autopipe.planning.plans.carry_over import carry_over
from autopipe.planning.plans.plan import Plan

Dataset = tf.data.Dataset


KNOBS = (
    Knob("map[f].num_parallel_calls", "num_parallel_calls", -1),
    Knob("interleave[g].num_parallel_calls", "num_parallel_calls", -1, most=6),
    Knob("prefetch.buffer_size", "buffer_size", -1),
    Knob("thread_pool.size", "size", 0, automatic=0),
)


def carried(knobs, there, here, *, rules=(), applied=(), at=(), **given):
    stored = Plan("ab12", knobs=knobs, rules=rules, machine=there, **given)
    done = Plan("ab12", rules=applied, places=at, machine=here, versions={"tensorflow": "2.21.0"})
    return carry_over(stored, done, KNOBS)


@pytest.mark.parametrize(
    ("knob", "there", "here"),
    [
        ("map[f].num_parallel_calls", 16, 4),
        ("map[f].num_parallel_calls", 3, 1),
        ("map[f].num_parallel_calls", 1, 1),
        ("map[f].num_parallel_calls", -1, -1),
        ("thread_pool.size", 12, 3),
        ("thread_pool.size", 0, 0),
        ("prefetch.buffer_size", 16, 16),
        ("prefetch.buffer_size", -1, -1),
    ],
)
def test_what_is_so_many_for_each_core_is_scaled_to_fewer_cores(knob, there, here):
    plan = carried({knob: there}, {"cores": 8}, {"cores": 2})
    assert plan.knobs == {knob: here}
    assert plan.carried.scaled == ({} if there == here else {knob: (there, here)})


def test_more_cores_scale_up_to_the_limit_of_the_knob():
    plan = carried({"interleave[g].num_parallel_calls": 4, "thread_pool.size": 9}, {"cores": 0.5}, {"cores": 4096})
    assert plan.knobs == {"interleave[g].num_parallel_calls": 6, "thread_pool.size": 1_024}


def test_who_asked_for_more_than_scaling_gives_keeps_it():
    assert carried({"thread_pool.size": 3_000}, {"cores": 2}, {"cores": 4}).knobs == {"thread_pool.size": 3_000}


@pytest.mark.parametrize("there", [{}, {"cores": 2}, {"cores": 2.0, "host": "other"}])
def test_nothing_is_scaled_where_the_cores_are_as_many_or_not_known(there):
    assert carried({"map[f].num_parallel_calls": 5}, there, {"cores": 2}).knobs == {"map[f].num_parallel_calls": 5}


def test_a_knob_is_left_out_only_where_the_rules_of_the_plan_were_not_applied_as_it_says():
    knobs = {"gone.buffer_size": 2, "prefetch.buffer_size": 3}
    refused = carried(knobs, {}, {}, rules=("a", "b", "b"), applied=("a",))
    assert (refused.knobs, refused.carried.left_out) == ({"prefetch.buffer_size": 3}, ("gone.buffer_size",))
    assert (refused.carried.rules, refused.carried.refused) == (("a",), ("b",))
    assert carried(knobs, {}, {}, rules=("a",), applied=("a",)).knobs == knobs
    once = carried(knobs, {}, {}, rules=("b", "b"), applied=("b",))
    assert (once.carried.refused, once.carried.left_out) == ((), ("gone.buffer_size",))
    elsewhere = carried(knobs, {}, {}, rules=("a",), places=(3,), applied=("a",), at=(2,))
    assert elsewhere.carried.left_out == ("gone.buffer_size",)
    assert carried(knobs, {}, {}, rules=("a",), places=(3,), applied=("a",), at=(3,)).knobs == knobs


def test_figures_say_that_they_are_from_another_machine_and_keep_saying_so():
    there = {"cores": 8, "host": "gpu-1"}
    plan = carried({}, there, {"cores": 2, "host": "pod"}, measured={"after": 1.4})
    assert plan.carried.elsewhere
    assert plan.measured == {"after": 1.4, "machine": there}
    again = carry_over(Plan.from_json(plan.to_json()), Plan("ab12", machine={"cores": 2, "host": "pod"}), KNOBS)
    assert again.carried.elsewhere
    assert again.measured == plan.measured
    home = carry_over(again, Plan("ab12", machine=there), KNOBS)
    assert not home.carried.elsewhere


def test_other_versions_are_told():
    assert not carried({}, {}, {}).carried.versions
    plan = carried({}, {}, {}, versions={"tensorflow": "2.20.0", "keras": "3.5"})
    assert plan.carried.versions == {"tensorflow": ("2.20.0", "2.21.0")}


def test_numbers_of_one_of_several_stages_of_a_name_are_left_out_where_these_are_more_or_fewer():
    given = Plan(
        "ab12", rules=("a",), knobs={"shuffle.buffer_size": 4, "shuffle#2.buffer_size": 9, "prefetch.buffer_size": 2}
    )
    one, both = [
        [Knob(f"{name}.buffer_size", "buffer_size", 1) for name in (*names, "prefetch")]
        for names in (["shuffle"], ["shuffle", "shuffle#2"])
    ]
    assert dict(carry_over(given, Plan("ab12"), one).knobs) == {"prefetch.buffer_size": 2}
    assert dict(carry_over(given, Plan("ab12"), both).knobs) == given.knobs
