"""Run a pipeline before and after a rule, and compare what was promised."""

from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps, MeasurementError, catalogue
from autopipe.verify import compare


class Answers:
    """Stands in for measuring: the same answer whatever is asked, so that a rule's own logic decides."""

    def __init__(
        self,
        *,
        cache_bytes=1000,
        ram_budget=10**9,
        speed=(2.0, 1.5, 2.5),
        caching=(1e-3, 1e-5),
        element_bytes=lambda node: 8.0,
        working=(1e-3, 1e-4),
        disk_free=None,
        most_elements=1000,
    ):
        self.ram_budget = ram_budget
        self.cores = 2
        self.exhausted = None
        self.follows_plan = False
        self.element_bytes = element_bytes
        self._cache_bytes = cache_bytes
        self._disk_free = disk_free
        self._speed = speed
        self._caching = caching
        self._working = working
        self._most_elements = most_elements

    def cache_bytes(self, node):
        return self._cache_bytes

    def bytes_beside_caches(self, pipeline):
        return 0

    def most_elements(self, node):
        if self._most_elements is None:
            raise MeasurementError("nobody knows")
        return self._most_elements

    def caching(self, node, *, on_disk=False):
        return self._caching

    def filling(self, node, buffer_size):
        held = min(buffer_size, self.most_elements(node))
        return held, held * self._caching[0]

    def working(self, mapped):
        return self._working

    @property
    def disk_free(self):
        return self._disk_free

    def keep_on_disk(self, node):
        return "/nowhere/file"

    def same(self, before, after, over, exact):
        return None

    def speed(self, before, after, over):
        return self._speed


class AlwaysFaster(SampleMeasurements):
    """Measures sizes and compares results on real elements, but calls every rewrite a gain, so that each happens."""

    # A cache is worth whatever it takes, and nothing waits for what it takes.
    cores = 1e9

    def working(self, mapped):
        return 1.0, 0.0

    def caching(self, node, *, on_disk=False):
        return 1.0, 0.0

    def speed(self, before, after, over):
        return 2.0, 1.5, 2.5


def named(name):
    (found,) = [rule for rule in catalogue() if rule.name == name]
    return found


def apply(rule, dataset, keeps=Keeps.TRAINING, answers=None):
    return rewrite(extract(dataset), [named(rule)], keeps=keeps, measurements=answers or Answers())


def with_all_rules(dataset, keeps=Keeps.TRAINING):
    """Return a dataset that every rule has rewritten wherever it may, though it were slower."""
    return build(rewrite(extract(dataset), catalogue(), keeps=keeps, measurements=AlwaysFaster()).after)


def assert_rewrites(rule, dataset, expected, keeps=Keeps.TRAINING, answers=None):
    """The rule turns the dataset into the expected text, and both sides yield what its promise says."""
    done = apply(rule, dataset, keeps, answers)

    assert one_line(done.after) == expected
    assert {step.rule for step in done.steps} == {rule}
    weakest = min(step.keeps for step in done.steps)
    assert weakest >= keeps
    assert compare(dataset, build(done.after), weakest, epochs=2) is None
    return done


def assert_refuses(rule, dataset, reason, keeps=Keeps.TRAINING, answers=None):
    """The shape is there, nothing changes, and the reason holds these words."""
    done = apply(rule, dataset, keeps, answers)

    assert done.after == done.before
    assert [refusal.rule for refusal in done.refusals] == [rule]
    assert reason in done.refusals[0].reason


def assert_no_match(rule, dataset):
    """The shape is not there: nothing is said."""
    done = apply(rule, dataset)

    assert done.after == done.before
    assert not done.refusals
