import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from programs import begin_program, run_program

import autopipe
from autopipe.errors import ArgumentError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_fixed_work_on_disk"
SMALL_MEMORY = {"ram_budget": 10, "disk_free": 10**9}
IMAGES = np.random.default_rng(0).integers(0, 255, (12, 48, 48, 3), dtype=np.uint8)
JPEGS = tf.data.Dataset.from_tensor_slices([tf.io.encode_jpeg(image).numpy() for image in IMAGES])


def load(jpeg):
    image = tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (48, 48, 3))
    return tf.image.random_flip_left_right(image)


def decode(jpeg):
    return tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (48, 48, 3))


@pytest.fixture
def slow(monkeypatch):
    """Decoding these small images takes less than a cache must save to be worth its place."""
    monkeypatch.setattr(
        "autopipe.planning.measuring.measure.SampleMeasurements.caching", lambda *_, on_disk=False: (1.0, 1e-4)
    )


def on_disk(dataset, folder, **arguments):
    return autopipe.optimize(dataset, ram_budget=1000, disk_cache=folder, **arguments)


def written_files(folder):
    return sorted(path.name for path in folder.glob("*/*/data.index"))


def test_what_is_fixed_is_kept_on_disk_where_memory_is_too_small():
    done = apply(RULE, JPEGS.map(load), answers=Answers(**SMALL_MEMORY))
    assert one_line(done.after) == "tensor_slices | map(fixed part of load) | cache(on disk) | map(rest of load)"
    assert any("run once, not in every epoch" in proof.because for proof in done.steps[0].proofs)
    whole = "tensor_slices | map(decode) | cache(on disk)"
    (cache,) = [
        node
        for node in trees.walk(assert_rewrites(RULE, JPEGS.map(decode), whole, answers=Answers(**SMALL_MEMORY)).after)
        if isinstance(node, ir.Cache)
    ]
    assert not cache.in_memory


def test_without_a_folder_there_is_nothing_to_say():
    assert_no_match(RULE, JPEGS.map(load))


def test_refuses_what_fits_memory():
    done = apply(RULE, JPEGS.map(load), answers=Answers(ram_budget=10**9, disk_free=10**9))
    assert not done.steps
    assert not done.refusals


def test_refuses_what_does_not_fit_the_disk():
    assert_refuses(RULE, JPEGS.map(load), "of the disk may be used", answers=Answers(ram_budget=10, disk_free=100))


def test_refuses_what_costs_as_much_to_read_as_to_make():
    answers = Answers(**SMALL_MEMORY, caching=(1e-3, 1e-3))
    assert_refuses(RULE, JPEGS.map(load), "to read it from disk", answers=answers)


def test_refuses_two_readers():
    mapped = JPEGS.map(decode)
    both = tf.data.Dataset.zip((mapped, mapped))
    assert_refuses(RULE, both, "is read twice", answers=Answers(**SMALL_MEMORY))


def test_elements_are_the_same_in_every_epoch_and_written_once(tmp_path, slow):
    dataset = on_disk(JPEGS.map(decode).batch(5), tmp_path)
    assert RULE in dataset.plan.rules
    for _ in range(3):
        assert compare(JPEGS.map(decode).batch(5), dataset, Keeps.SEQUENCE, epochs=1) is None
    assert written_files(tmp_path) == ["data.index"]
    assert "cache(on disk)" in str(dataset.explain())


def records(folder, jpegs):
    path = str(folder / "images.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for jpeg in jpegs:
            writer.write(jpeg)
    return tf.data.TFRecordDataset(path)


def test_elements_whose_number_is_not_known_are_written_once_and_read_by_the_next_run(tmp_path, slow):
    made = records(tmp_path, [jpeg.numpy() for jpeg in JPEGS]).map(decode).batch(5)
    cache = tmp_path / "cache"
    for _run in range(2):
        dataset = on_disk(made, cache)
        assert RULE in dataset.plan.rules
        for _ in range(2):
            assert compare(made, dataset, Keeps.SEQUENCE, epochs=1) is None
    assert written_files(cache) == ["data.index"]


def test_an_image_that_cannot_be_decoded_fails_in_every_run_and_is_never_left_out(tmp_path, slow):
    jpegs = [jpeg.numpy() for jpeg in JPEGS]
    made = records(tmp_path, [*jpegs, b"no image", *jpegs]).map(decode).prefetch(50)
    for _run in range(2):
        dataset = on_disk(made, tmp_path / "cache", seconds=5)
        assert RULE in dataset.plan.rules
        for _epoch in range(2):
            iterator = iter(dataset)
            with pytest.raises(tf.errors.InvalidArgumentError):
                list(iterator)
            time.sleep(0.1)  # The prefetch goes on meanwhile.


def test_augmentation_after_the_cache_still_differs_in_every_epoch(tmp_path, slow):
    dataset = on_disk(JPEGS.map(load).batch(12), tmp_path)
    assert RULE in dataset.plan.rules
    assert len({next(iter(dataset)).numpy().tobytes() for _ in range(3)}) > 1


def test_an_epoch_that_is_left_halfway_does_no_harm(tmp_path, slow):
    dataset = on_disk(JPEGS.map(decode), tmp_path)
    for _ in range(3):
        halfway = iter(dataset)
        next(halfway)
    whole = [image.numpy().tobytes() for image in dataset]
    assert whole == [image.numpy().tobytes() for image in JPEGS.map(decode)]
    assert [image.numpy().tobytes() for image in halfway] == whole[1:]


def test_what_is_derived_from_the_dataset_reads_through_no_file_of_its_own(tmp_path, slow):
    dataset = on_disk(JPEGS.map(decode), tmp_path)
    pairs = list(tf.data.Dataset.zip((dataset, dataset.take(3))))
    assert len(pairs) == 3
    assert written_files(tmp_path) == []


def test_retuning_while_the_file_is_written_loses_nothing(tmp_path, slow):
    dataset = on_disk(JPEGS.map(decode, num_parallel_calls=2), tmp_path)
    expected = [image.numpy().tobytes() for image in JPEGS.map(decode)]
    knob = next(name for name in dataset.knobs if name.startswith("map"))
    for epoch in range(3):
        seen = []
        for number, image in enumerate(dataset):
            seen.append(image.numpy().tobytes())
            dataset.retune({knob: 1 + (number + epoch) % 3})
        assert seen == expected


def test_a_file_that_was_read_has_changed_and_is_read_again(tmp_path, slow):
    folder = tmp_path / "caches"
    image = tmp_path / "image.jpg"

    def pipeline():
        return tf.data.Dataset.from_tensors(str(image)).map(lambda path: decode(tf.io.read_file(path)))

    for shade in (10, 200):
        image.write_bytes(tf.io.encode_jpeg(np.full((48, 48, 3), shade, np.uint8)).numpy())
        dataset = on_disk(pipeline(), folder)
        assert RULE in dataset.plan.rules
        for _ in range(2):
            (only,) = dataset
            assert abs(int(only[0, 0, 0]) - shade) <= 3
    assert written_files(folder) == ["data.index"] * 2


def test_contents_that_cannot_be_known_are_refused(tmp_path, slow):
    dataset = on_disk(JPEGS.shuffle(5, seed=3, reshuffle_each_iteration=False).take(9).map(decode), tmp_path)
    assert RULE not in dataset.plan.rules
    (reason,) = [each.reason for each in dataset.explain().rewriting.refusals if each.rule == RULE]
    assert "it cannot be kept on disk" in reason


def test_a_folder_that_is_a_file_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ArgumentError, match="The folder of a disk cache must be"):
        autopipe.optimize(JPEGS.map(decode), disk_cache=file)


PROGRAM = """
import sys, time
from pathlib import Path
import tensorflow as tf, autopipe
from autopipe.planning.measuring import measure
measure.SampleMeasurements.caching = lambda *_, on_disk=False: (1.0, 1e-4)

def slow(number):
    square = tf.linalg.matmul(*[tf.cast(tf.fill((60, 60), number), tf.float32)] * 2)
    return tf.tile(tf.reduce_sum(square)[None], [50_000])

dataset = autopipe.optimize(tf.data.Dataset.range(400).map(slow), ram_budget=1000, disk_cache=sys.argv[1])
assert "cache_fixed_work_on_disk" in dataset.plan.rules, dataset.explain()
total = 0.0
for count, each in enumerate(dataset):
    total += float(each[7])
    if count == int(sys.argv[2]):
        Path(sys.argv[3]).touch()
    if count >= int(sys.argv[2]):
        time.sleep(0.05)
print(total)
"""


def test_a_process_killed_while_it_writes_leaves_nothing_that_is_trusted(tmp_path, slow, capsys, monkeypatch):
    expected = float(sum(number * number * 60 * 3600 for number in range(400)))
    folder = tmp_path / "cache"
    for last in (0, 200):
        reached = tmp_path / f"reached-{last}"
        process, answer = begin_program(PROGRAM, folder, last, reached)
        while not reached.exists():
            assert not answer.poll(0.005), answer.recv()
        process.kill()
        process.join()
        assert not written_files(folder)
    printed = run_program(PROGRAM, folder, 400, "")
    # This process reads what that one wrote.
    monkeypatch.setattr(sys, "argv", ["-c", str(folder), "400", ""])
    exec(PROGRAM, {})
    for said in (printed, capsys.readouterr().out):
        assert float(said) == pytest.approx(expected, rel=1e-5)
    assert written_files(folder) == ["data.index"]


def test_refuses_a_file_that_no_epoch_would_write_to_its_end():
    dataset = JPEGS.map(load).batch(4).take(2)
    assert_refuses(RULE, dataset, "may stop before its end", answers=Answers(**SMALL_MEMORY))


def test_files_that_are_read_at_once_before_it_have_a_place_on_disk_too(tmp_path, slow):
    for number in range(3):
        with tf.io.TFRecordWriter(str(tmp_path / f"{number}.gz"), "GZIP") as writer:
            for jpeg in JPEGS.take(4):
                writer.write(jpeg.numpy())
    records = tf.data.TFRecordDataset(sorted(map(str, tmp_path.glob("*.gz"))), "GZIP").map(decode)
    identity = autopipe.optimize(records, rules=(), seconds=0).plan.fingerprint
    plan = autopipe.Plan(identity, rules=(RULE, "parallel_reads"))
    dataset = on_disk(records, tmp_path / "kept", plan=plan)
    assert dataset.plan.rules == plan.rules
    assert len(list(dataset)) == len(list(dataset)) == 12
    assert len(written_files(tmp_path / "kept")) == 1


def test_who_optimizes_it_again_is_told_to_say_where_it_is_kept(tmp_path, slow):
    once = on_disk(JPEGS.map(decode), tmp_path)
    with pytest.warns(UserWarning, match="Pass the same disk_cache"):
        autopipe.optimize(once, seconds=0)
    again = autopipe.optimize(once, seconds=0, disk_cache=tmp_path)
    assert len(list(again)) == 12
    assert len(written_files(tmp_path)) == 1


def test_the_whole_with_it_is_measured_against_the_whole_as_written(tmp_path, slow, monkeypatch):
    measured = []
    whole_speed = "autopipe.planning.measuring.measure.SampleMeasurements.whole_speed"
    monkeypatch.setattr(whole_speed, lambda *_, **__: measured.append(1) or (0.5, 0.49, 0.51))
    assert not on_disk(JPEGS.map(decode), tmp_path).plan.rules
    assert measured
