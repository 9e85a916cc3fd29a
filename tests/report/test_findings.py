"""Each finding stands out where it should, and nowhere else."""

from dataclasses import replace

import pytest
import tensorflow as tf
from profiles import profile_of

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.planning.costs.ceiling import Ceiling
from autopipe.planning.costs.cost import limiting
from autopipe.planning.costs.diagnosis import Diagnosis
from autopipe.planning.memory.machine import Machine
from autopipe.report.findings import _LOOKS, CODES, CODES_OF_COSTS, findings
from autopipe.rules import Keeps
from sides import Answers, apply

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(40)
MIB = 2**20


def scale(x):
    return tf.cast(x, tf.float32) / 255.0 - 0.5


def noise(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def decode(x):
    return scale(tf.io.decode_raw(tf.strings.as_string(x), tf.uint8))


def all_but_one(x):
    tokens = tf.io.decode_raw(tf.strings.as_string(x), tf.uint8)
    return tokens[:-1], tokens[1:]


def double(x):
    return 2 * x


def center(x):
    return x - tf.reduce_mean(x)


def in_python(x):
    return tf.ensure_shape(tf.numpy_function(abs, [x], tf.int64), [])


def lines_of(name):
    return tf.data.TextLineDataset(name)


def counting():
    yield from range(40)


def options(**flags):
    made = tf.data.Options()
    for name, value in flags.items():
        part, _, flag = name.partition("__")
        setattr(getattr(made, part), flag, value)
    return made


def counted(dataset):
    """Return the elements, each with a seed, as TensorFlow's tutorial on augmentation has it."""
    counter = Dataset.counter()
    return Dataset.zip((dataset, Dataset.zip((counter, counter)).map(lambda *seed: tf.stack(seed))))


def seeded(x, seed):
    return tf.cast(x, tf.float32) + tf.random.stateless_uniform((), seed)


def seeded_batch(x, seeds):
    return tf.cast(x, tf.float32) + tf.random.stateless_uniform((), seeds[0])


RNG = tf.random.Generator.from_seed(1)
BYTES = NUMBERS.map(lambda x: tf.cast(x, tf.uint8))
NAMES = Dataset.from_tensor_slices(["a", "b", "c"])
GENERATOR = Dataset.from_generator(counting, output_signature=tf.TensorSpec((), tf.int64))
ALL = tf.data.UNKNOWN_CARDINALITY
IMAGES = NUMBERS.map(lambda x: tf.zeros((4, 4, 3)) + tf.cast(x, tf.float32))
NO_AUTOTUNING = options(autotune__enabled=False)
NO_PREFETCH = options(experimental_optimization__inject_prefetch=False)

STANDING_OUT = {
    "AP101": [NUMBERS.batch(4).shuffle(9), NUMBERS.padded_batch(4).prefetch(1).shuffle(9)],
    "AP102": [NUMBERS.map(noise).cache(), NUMBERS.map(noise).batch(2).cache("/nowhere/file")],
    "AP103": [
        NUMBERS.shuffle(40).cache(),
        NUMBERS.shuffle(40, seed=1).batch(2).cache(),
        NUMBERS.shuffle(40).cache().shuffle(39),
        NUMBERS.shuffle(40).cache().take(40).prefetch(2),
    ],
    "AP104": [NUMBERS.repeat().batch(3).cache(), Dataset.zip((NUMBERS.repeat(), NUMBERS.repeat())).cache()],
    "AP105": [BYTES.batch(4).map(scale), BYTES.batch(4).prefetch(1).map(scale, num_parallel_calls=2)],
    "AP107": [NUMBERS.repeat().shuffle(40), NUMBERS.repeat(3).prefetch(1).shuffle(40)],
    "AP108": [
        NUMBERS.shuffle(10),
        NUMBERS.shuffle(1).cache(),
        NUMBERS.map(double).filter(lambda x: x > 3).shuffle(9).batch(2),
    ],
    "AP111": [NUMBERS.cache().take(10), NUMBERS.cache().prefetch(1).take(39)],
    "AP113": [NUMBERS.map(decode).cache(), NUMBERS.map(decode, num_parallel_calls=2).cache("/nowhere/file")],
    "AP115": [
        counted(NUMBERS).map(seeded),
        counted(NUMBERS.map(double).cache()).shuffle(40).map(seeded, num_parallel_calls=2).batch(4),
        counted(NUMBERS).batch(2).prefetch(1).map(seeded_batch),
        counted(NUMBERS).map(lambda x, seed: (x, seed + 1)).repeat(3).map(seeded),
        NUMBERS.map(lambda x: seeded(x, (x, 2))),
    ],
    "AP116": [
        Dataset.zip((NUMBERS.shuffle(40), NUMBERS.map(noise).shuffle(40))),
        Dataset.zip((NUMBERS.shuffle(40, seed=1).batch(2), NUMBERS.map(noise).shuffle(40, seed=2).batch(2))),
        Dataset.zip((IMAGES.shuffle(40), NUMBERS.shuffle(40))),
        Dataset.zip((IMAGES.shuffle(40), IMAGES.map(lambda x: x[..., :1]).shuffle(40))),
    ],
    "AP201": [
        NUMBERS.batch(2).prefetch(0),
        NUMBERS.batch(2).with_options(NO_PREFETCH),
        NUMBERS.with_options(NO_AUTOTUNING).batch(2),
    ],
    "AP203": [
        NAMES.interleave(lines_of),
        NAMES.flat_map(lines_of),
        NAMES.apply(tf.data.experimental.parallel_interleave(lines_of, cycle_length=1)),
        tf.data.TextLineDataset(["a", "b"]),
        tf.data.experimental.CsvDataset(["a", "b"], [tf.float32]),
        tf.data.TFRecordDataset(NAMES.filter(lambda name: name != "a")),
    ],
    "AP204": [NUMBERS.map(in_python), NUMBERS.filter(lambda x: in_python(x) > 3)],
}
GOOD = [
    Dataset.from_tensors("a").flat_map(lines_of),
    Dataset.from_tensors("a").interleave(lines_of),
    Dataset.zip((NUMBERS.shuffle(40), NUMBERS.shuffle(40))),
    Dataset.zip((Dataset.zip((IMAGES, NUMBERS)).shuffle(40), Dataset.zip((IMAGES, NAMES.repeat())).shuffle(40))),
    Dataset.zip((BYTES.shuffle(40).batch(2), BYTES.shuffle(40).batch(2, drop_remainder=True))),
    Dataset.zip((NUMBERS.shuffle(40), NUMBERS.map(noise))),
    Dataset.zip((NUMBERS.shuffle(40), NUMBERS.map(noise).take(9).shuffle(9))),
    Dataset.zip((NUMBERS.shuffle(40, seed=1), NUMBERS.map(noise).shuffle(40, seed=1))),
    counted(NUMBERS.shuffle(40)).map(seeded),
    counted(NUMBERS.repeat()).map(seeded),
    counted(NUMBERS.map(noise)).map(seeded),
    counted(NUMBERS).shuffle(40).batch(2).map(seeded_batch),
    counted(NUMBERS.unique()).map(seeded),
    NUMBERS.map(lambda x: seeded(x, RNG.make_seeds(1)[:, 0])),
    NUMBERS.map(lambda x: tf.random.split((1, 2), 2) + tf.cast(x, tf.int32)),
    NUMBERS.shuffle(40).batch(4),
    NUMBERS.cache().map(noise),
    NUMBERS.cache().shuffle(40).repeat(),
    NUMBERS.shuffle(20).cache().map(noise).shuffle(40).repeat(),
    NUMBERS.cache().prefetch(1).take(40),
    NUMBERS.repeat(3).cache(),
    NUMBERS.repeat().take(30).cache(),
    Dataset.zip((NUMBERS, NUMBERS.repeat())).cache(),
    NUMBERS.shuffle(40, seed=1, reshuffle_each_iteration=False).cache(),
    NUMBERS.map(scale).batch(4),
    NUMBERS.batch(4).map(lambda x: x * 2),
    BYTES.batch(4).map(lambda x: tf.cast(tf.reduce_sum(x), tf.float32)),
    BYTES.batch(4).map(noise),
    NUMBERS.repeat(1).shuffle(40),
    NUMBERS.shuffle(40).repeat(),
    NUMBERS.shuffle(20),
    NUMBERS.filter(lambda x: x > 30).shuffle(10),
    NUMBERS.shuffle(ALL),
    NUMBERS.padded_batch(2).unbatch().shuffle(3),
    NUMBERS.shuffle(40).map(double).shuffle(3),
    NUMBERS.cache().take(-1),
    NUMBERS.cache().take(100),
    NUMBERS.take(10).cache(),
    BYTES.cache().map(scale),
    NUMBERS.map(double).cache(),
    NUMBERS.map(all_but_one).cache(),
    NUMBERS.batch(2).with_options(NO_PREFETCH).prefetch(2),
    NUMBERS.prefetch(0).batch(2),
    NAMES.interleave(lines_of, num_parallel_calls=2),
    NAMES.apply(tf.data.experimental.parallel_interleave(lines_of, cycle_length=2)),
    NAMES.take(1).apply(tf.data.experimental.parallel_interleave(lines_of, cycle_length=1)),
    NAMES.interleave(Dataset.from_tensors),
    tf.data.TextLineDataset(["a", "b"], num_parallel_reads=2),
    tf.data.TextLineDataset("a"),
    GENERATOR.batch(2),
]


@pytest.mark.parametrize(("code", "dataset"), [(code, each) for code in STANDING_OUT for each in STANDING_OUT[code]])
def test_what_stands_out_is_found(code, dataset):
    assert [finding.code for finding in findings(extract(dataset))] == [code]


@pytest.mark.parametrize("dataset", GOOD)
def test_nothing_stands_out_in_a_good_pipeline(dataset):
    assert findings(extract(dataset)) == ()


def test_ap108_says_of_a_number_that_is_not_known_that_there_may_be_so_many():
    (known,) = findings(extract(NUMBERS.shuffle(3)))
    assert "than the 40 elements:" in known.why
    (unknown,) = findings(extract(NUMBERS.filter(lambda x: x > 3).shuffle(3)))
    assert "than the 40 elements that there may be:" in unknown.why


@pytest.mark.parametrize(
    ("dataset", "rule"),
    [
        (NAMES.interleave(lines_of), "parallel_interleave"),
        (NAMES.flat_map(lines_of), "parallel_flat_map"),
        (tf.data.TextLineDataset(NAMES), "parallel_reads"),
    ],
)
def test_ap203_does_not_advise_what_was_measured_to_be_slower(dataset, rule):
    def advised(**slower):
        done = apply(rule, dataset, Keeps.ELEMENTS, Answers(**slower))
        assert all(refusal.timed for refusal in done.refusals)
        return [finding.code for finding in findings(done.before, refusals=done.refusals)]

    assert advised() == ["AP203"]
    assert advised(speed=(0.6, 0.5, 0.7)) == []


def test_ap203_is_silent_of_readers_that_read_alike_only_where_all_were_measured_to_be_slower():
    readers = [tf.data.TextLineDataset(names) for names in (["a", "b"], ["c", "d"])]
    done = apply("parallel_reads", Dataset.zip(tuple(readers)), Keeps.ELEMENTS, Answers(speed=(0.6, 0.5, 0.7)))
    assert len(done.refusals) == 2
    assert [each.code for each in findings(done.before, refusals=done.refusals[:1])] == ["AP203"] * 2
    assert not findings(done.before, refusals=done.refusals)


def test_ap203_advises_no_argument_that_a_reader_does_not_take():
    (of_lines,) = findings(extract(tf.data.TextLineDataset(["a", "b"])))
    (of_rows,) = findings(extract(tf.data.experimental.CsvDataset(["a", "b"], [tf.float32])))
    assert "num_parallel_reads" in of_lines.remedy
    assert "num_parallel_reads" not in of_rows.remedy
    assert "interleave over the names" in of_rows.remedy


@pytest.mark.parametrize(("given", "full"), [((), "memory"), (("/nowhere/file",), "the disk")])
def test_ap104_says_what_is_full_in_the_end(given, full):
    (found,) = findings(extract(NUMBERS.repeat().cache(*given)))
    assert f"until {full} is full" in found.why


class TestMeasured:
    """Findings that only what was measured tells."""

    MEASURED = frozenset({"AP106", "AP109", "AP110", "AP112", "AP114", "AP202", "AP205", "AP301", "AP302"})

    def test_every_code_is_tried(self):
        assert set(STANDING_OUT) | self.MEASURED == set(CODES)

    @staticmethod
    def found(dataset, costs=None, *, pace=(None, None), best=100.0):
        tree = extract(dataset)
        cost = profile_of(tree, costs or {})
        diagnosis = Diagnosis(cost, limiting(cost, tree), Ceiling(best, {}), *pace)
        return {finding.code: finding for finding in findings(tree, diagnosis)}

    @pytest.mark.parametrize("dataset", [each for codes in STANDING_OUT.values() for each in codes])
    def test_what_stands_out_does_so_too_when_nothing_costs_much(self, dataset):
        (code,) = (finding.code for finding in findings(extract(dataset)))
        assert set(self.found(dataset)) == ({code} if code != "AP204" else set())

    @pytest.mark.parametrize("dataset", GOOD)
    def test_nothing_stands_out_where_nothing_costs_much(self, dataset):
        assert not self.found(dataset)

    def test_ap106_a_buffer_of_what_a_map_made_large(self):
        wide = {"each_bytes": 10 * MIB}
        costs = {ir.Map: wide, ir.Prefetch: wide, ir.Shuffle: wide, ir.Range: {"each_bytes": MIB}}
        for size in (40, ALL):
            found = self.found(NUMBERS.map(double).prefetch(1).shuffle(size).batch(2), costs)
            assert found["AP106"].gain == "40 MiB in place of 400 MiB"
            assert "range(0, 40)" in found["AP106"].why
            assert found["AP106"].where == f"shuffle({size})"

    @pytest.mark.parametrize(
        ("each_bytes", "before"),
        [(10 * MIB, 5 * MIB), (1000, 8)],
        ids=["hardly larger", "a small buffer"],
    )
    def test_ap106_not_where_it_gains_little(self, each_bytes, before):
        wide = {"each_bytes": each_bytes}
        dataset = NUMBERS.map(double).shuffle(40)
        costs = {ir.Map: wide, ir.Shuffle: wide, ir.Range: {"each_bytes": before}}
        assert "AP106" not in self.found(dataset, costs)

    def test_ap106_counts_no_more_elements_than_there_are(self):
        wide = {"each_bytes": MIB}
        dataset = NUMBERS.map(double).shuffle(100_000)
        assert "AP106" not in self.found(dataset, {ir.Map: wide, ir.Shuffle: wide})

    def test_ap106_and_ap109_are_seen_in_a_shuffle_that_is_one_with_its_repeat(self, monkeypatch):
        monkeypatch.setattr(Machine, "here", lambda: Machine(2.0, 2**30, 64 * MIB, "small"))
        # More than the buffer holds: a source that has come to its end is not counted any more.
        dataset = Dataset.range(4000).map(lambda x: tf.zeros((MIB // 4 * 2,)) + tf.cast(x, tf.float32))
        dataset = dataset.shuffle(40).repeat()
        codes = {finding.code for finding in autopipe.explain(dataset, keeps="sequence", seconds=0.3).findings}
        assert {"AP106", "AP109"} <= codes

    def test_ap109_a_buffer_that_takes_much_of_memory(self, monkeypatch):
        monkeypatch.setattr(Machine, "here", lambda: Machine(4.0, 1000 * MIB, 100 * MIB, "small"))
        wide = {ir.Shuffle: {"each_bytes": MIB}, ir.Range: {"each_bytes": MIB}}
        assert "40 MiB of the 100 MiB" in self.found(NUMBERS.shuffle(40), wide)["AP109"].why
        assert "40 MiB of the 100 MiB" in self.found(NUMBERS.shuffle(ALL), wide)["AP109"].why
        assert "AP109" not in self.found(NUMBERS.shuffle(20), wide)
        assert "AP109" not in self.found(NUMBERS.unique().shuffle(ALL), wide)
        assert "AP109" not in self.found(Dataset.range(20).shuffle(10**6), wide)

    def test_ap110_the_same_work_behind_a_cache(self):
        costly = {ir.Map: {"seconds": 0.1, "share": 0.6}}
        for dataset in (NUMBERS.cache().map(double), NUMBERS.cache().shuffle(40).prefetch(1).map(double)):
            found = self.found(dataset, costly)["AP110"]
            assert found.where == "map(double)"
            assert "60%" in found.gain
        assert "AP110" not in self.found(NUMBERS.cache().map(double), {ir.Map: {"share": 0.1}})
        assert "AP110" not in self.found(NUMBERS.cache().map(noise, num_parallel_calls=2), costly)
        assert "AP110" not in self.found(NUMBERS.cache().map(noise).map(double, num_parallel_calls=2), costly)
        assert "AP110" not in self.found(NUMBERS.map(double), costly)

    def test_ap112_a_cache_that_does_not_fit(self, monkeypatch):
        monkeypatch.setattr(Machine, "here", lambda: Machine(4.0, 1000 * MIB, 100 * MIB, "small"))
        wide = {ir.Cache: {"each_bytes": 3 * MIB}}
        assert "needs 120 MiB, and 100 MiB of memory are available" in self.found(NUMBERS.cache(), wide)["AP112"].why
        assert not self.found(NUMBERS.cache(), {ir.Cache: {"each_bytes": 2 * MIB}})
        assert not self.found(NUMBERS.cache("/nowhere/file"), wide)
        assert not self.found(NUMBERS.filter(lambda x: x > 1).padded_batch(2).unbatch().cache(), wide)

    def test_ap114_work_on_batches_that_are_mixed_anew(self):
        costly = {ir.Map: {"seconds": 0.01, "share": 0.6}}
        for mixed in (NUMBERS.shuffle(40), NUMBERS.shuffle(40).repeat(2), NUMBERS.map(double).shuffle(40)):
            padded = mixed.prefetch(1).padded_batch(4).map(double).prefetch(1)
            centered = mixed.batch(4).map(center)
            for dataset, where, why in ((centered, "center", "Mean"), (padded, "double", "padded_batch(4)")):
                found = self.found(dataset, costly)["AP114"]
                assert found.where == f"map({where})"
                assert "shuffle(40) mixes anew" in found.why
                assert f"on others in its batch: {why}" in found.why
                assert "60%" in found.gain
            assert "AP114" not in self.found(mixed.batch(4).map(double), costly)
        assert "AP114" not in self.found(NUMBERS.shuffle(40).batch(4).map(noise), costly)
        assert "AP114" not in self.found(NUMBERS.map(noise).shuffle(40).batch(4).map(center), costly)
        assert "AP114" not in self.found(NUMBERS.shuffle(40).map(center), costly)
        assert "AP114" not in self.found(NUMBERS.batch(4).map(center), costly)
        once = NUMBERS.shuffle(40, seed=1, reshuffle_each_iteration=False)
        assert "AP114" not in self.found(once.batch(4).map(center), costly)
        for little in ({"seconds": 0.01, "share": 0.1}, {"seconds": 1e-4, "share": 0.6}):
            assert "AP114" not in self.found(NUMBERS.shuffle(40).batch(4).map(center), {ir.Map: little})

    def test_ap202_a_costly_map_that_tensorflow_does_not_run_in_parallel(self):
        costly = {ir.Map: {"seconds": 0.1, "share": 0.6}}
        found = self.found(NUMBERS.map(noise), costly)["AP202"]
        assert "since noise draws random numbers" in found.why
        assert "since" not in self.found(NUMBERS.map(double, synchronous=True), costly)["AP202"].why
        assert not self.found(NUMBERS.map(noise, num_parallel_calls=2), {ir.Map: {"share": 0.6, "calls": 2}})
        assert not self.found(NUMBERS.map(double), {ir.Map: {"share": 0.6, "calls": 2}})
        assert not self.found(NUMBERS.map(noise), {ir.Map: {"share": 0.1}})
        assert "AP202" not in self.found(NUMBERS.map(in_python), costly)

    def test_ap204_tells_its_share_and_is_silent_where_that_is_small(self):
        costly = {ir.Map: {"seconds": 0.1, "share": 0.6}}
        assert "60% of the work" in self.found(NUMBERS.map(in_python), costly)["AP204"].why
        assert not self.found(NUMBERS.map(in_python), {ir.Map: {"share": 0.1}})

    def test_a_declaration_is_advised_only_for_code_that_gives_the_same_without_side_effects(self):
        costly = {ir.Map: {"share": 0.6}, ir.Generator: {"share": 0.6}}
        mapped = self.found(NUMBERS.map(in_python), costly)["AP204"].remedy
        assert mapped.startswith(
            "if its result depends only on its arguments (no random numbers) and it has no side effects"
        )
        made = self.found(GENERATOR, costly)["AP205"].remedy
        assert made.startswith("if it gives the same in every epoch and has no side effects")

    def test_ap205_a_generator_that_takes_much_of_the_work(self):
        assert set(self.found(GENERATOR, {ir.Generator: {"share": 0.6}})) == {"AP205"}
        assert not self.found(GENERATOR, {ir.Generator: {"share": 0.1}})
        assert not self.found(NUMBERS, {ir.Range: {"share": 1.0}})

    def test_ap301_a_consumer_that_waits(self):
        dataset = NUMBERS.map(double, num_parallel_calls=2).batch(2)
        costly = {ir.Map: {"seconds": 0.1, "share": 0.9, "calls": 2}}
        found = self.found(dataset, costly, pace=(50.0, 100.0))["AP301"]
        assert found.where == "map(double, calls=2)"
        assert "waits 50% of each step" in found.why
        assert found.gain == "up to 2.0x the steps per second"
        assert not self.found(dataset, costly, pace=(97.0, 100.0))
        assert not self.found(dataset, costly)
        assert self.found(dataset, costly, pace=(0.0, 100.0))["AP301"].gain is None

    def test_ap302_input_much_faster_than_its_consumer(self):
        found = self.found(NUMBERS.batch(2), pace=(10.0, 10.0), best=100.0)
        assert set(found) == {"AP302"}
        assert "10.0x as fast" in found["AP302"].why
        assert not self.found(NUMBERS.batch(2), pace=(60.0, 60.0), best=100.0)
        assert set(self.found(NUMBERS.batch(2), pace=(5.0, 10.0), best=100.0)) == {"AP301"}


def test_a_finding_says_where_why_and_what_to_do():
    (finding,) = findings(extract(NUMBERS.map(noise).cache()))
    assert finding.where == "cache()"
    assert "what noise drew" in finding.why
    assert "before the random function" in finding.remedy


def test_a_finding_has_the_line_of_its_stage():
    tree = trees.transform(extract(NUMBERS.batch(4).shuffle(9)), lambda node: replace(node, line="train.py:7"))
    assert findings(tree)[0].line == "train.py:7"


def test_findings_stand_in_the_order_of_the_pipeline():
    dataset = NUMBERS.map(noise).cache().repeat().shuffle(9).batch(2).shuffle(3).prefetch(0)
    assert [finding.code for finding in findings(extract(dataset))] == ["AP102", "AP107", "AP101", "AP201"]


def test_findings_are_shown_and_given_to_machines():
    account = autopipe.explain(NUMBERS.map(noise).cache().batch(4), seconds=0)
    assert "AP102" in str(account)
    assert [finding["code"] for finding in account.to_dict()["findings"]] == ["AP102"]


def test_a_cache_that_freezes_augmentation_is_never_changed_silently():
    dataset = autopipe.optimize(NUMBERS.map(noise).cache().batch(4), keeps="sequence")
    assert not {"cache_after_map", "cache_before_repeat"} & set(dataset.plan.rules)
    assert "AP102" in str(dataset.explain())


def test_what_was_split_after_a_cached_shuffle_is_to_stay_split():
    for split in (NUMBERS.shuffle(40).cache().skip(10), NUMBERS.shuffle(40).cache().batch(2).take(10)):
        (found,) = [each for each in findings(extract(split)) if each.code == "AP103"]
        assert "reshuffle_each_iteration=False, and put the cache after" in found.remedy


def test_the_codes_of_costs_are_those_that_ask_for_figures():
    asking = {"cost", "diagnosis", "element_bytes", "held_bytes"}
    found = {code for code, look in _LOOKS.items() if asking & set(look.__code__.co_names)}
    # Of Python code the figures only say more.
    assert found - {"AP204"} == CODES_OF_COSTS
