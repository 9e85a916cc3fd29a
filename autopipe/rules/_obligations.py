"""What rules ask to be proved. Each obligation says in a sentence why it holds, or why it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from autopipe.functions.effects import Effects, effects
from autopipe.functions.function import Function
from autopipe.functions.vectorize import NotVectorizableError, vectorize
from autopipe.pipeline import ir
from autopipe.pipeline.visibility import who_would_see
from autopipe.rules._base import Keeps, MeasurementError, Proof, Site

__all__ = [
    "Deterministic",
    "Faster",
    "FitsMemory",
    "HasBatchedForm",
    "InMemory",
    "NoNewReadAhead",
    "OrderUnseen",
    "ReadAheadUnseen",
    "Reshuffles",
    "SameOnSample",
]

_MEBIBYTE = 2**20
_LEAST_GAIN = 1.05


@dataclass(frozen=True)
class Deterministic:
    """The function gives the same result for the same element in every epoch."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Look at every op; reading a file counts as the same while the files stay."""
        found = effects(self.fn)
        if found.pure:
            return Proof(True, f"{self.fn} only computes, so every epoch repeats the same result")
        if found == Effects(file_reads=found.file_reads):
            if site.demanded is Keeps.SEQUENCE:
                return Proof(False, f"{self.fn} {found.describe()}, which may change between epochs")
            return Proof(True, f"{self.fn} only computes and {found.describe()}; assumes the files stay as they are")
        return Proof(False, f"{self.fn} {found.describe()}, so each epoch must run it again")


@dataclass(frozen=True)
class OrderUnseen:
    """Nobody can see in which order, or how far ahead, the function runs on the elements."""

    fn: Function

    def check(self, site: Site) -> Proof:
        """Allow what only computes, reads files, or draws without a seed."""
        found = effects(self.fn)
        harmless = Effects(unseeded_random=found.unseeded_random, file_reads=found.file_reads)
        if found != harmless:
            return Proof(False, f"{self.fn} {found.describe()}, and parallel calls would change when it does")
        if found.unseeded_random and site.demanded is not Keeps.TRAINING:
            return Proof(False, f"{self.fn} {found.describe()}, and keeps={site.demanded} fixes the order of draws")
        return Proof(True, f"{self.fn} {found.describe()}, and elements stay in order")


@dataclass(frozen=True)
class NoNewReadAhead:
    """Calling a map in parallel takes no element earlier than TensorFlow does by itself, or nobody can see it."""

    mapped: ir.Map

    def check(self, site: Site) -> Proof:
        """TensorFlow calls a stateless function in parallel, unless an option of the pipeline forbids it."""
        if effects(self.mapped.fn).unseeded_random or not _parallel_by_default(site.pipeline):
            return ReadAheadUnseen(self.mapped.input).check(site)
        return Proof(True, "TensorFlow takes elements ahead for it by itself")


def _parallel_by_default(pipeline: ir.Node) -> bool:
    for node in ir.walk(pipeline):
        if isinstance(node, ir.Options):
            switches = (
                node.options.autotune.enabled,
                node.options.experimental_optimization.apply_default_optimizations,
                node.options.experimental_optimization.map_parallelization,
            )
            if False in switches:
                return False
    return True


@dataclass(frozen=True)
class ReadAheadUnseen:
    """Nobody can see that elements are made before they are asked for."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for Python, variables and unknown state anywhere upstream."""
        witness = who_would_see(self.pipeline)
        if witness:
            return Proof(False, f"{witness}, and it would run ahead of the consumer")
        return Proof(True, "nothing upstream keeps state, so making elements early cannot be seen")


@dataclass(frozen=True)
class Reshuffles:
    """Every epoch has its own order."""

    shuffle: ir.Shuffle

    def check(self, site: Site) -> Proof:
        """Look at the flag: moved below ``repeat``, an order that is kept would come again in every epoch."""
        if not self.shuffle.reshuffle_each_iteration:
            return Proof(False, "reshuffle_each_iteration=False would repeat one order in every epoch")
        return Proof(True, "every epoch is shuffled anew")


@dataclass(frozen=True)
class InMemory:
    """The cache holds elements in memory."""

    cache: ir.Cache

    def check(self, site: Site) -> Proof:
        """Refuse files: one that is there already holds the elements of the old place."""
        if self.cache.in_memory:
            return Proof(True, "the cache is in memory and starts empty")
        return Proof(False, f"the cache file {self.cache.filename!r} may already hold elements of the old place")


@dataclass(frozen=True)
class FitsMemory:
    """All elements of a pipeline fit into the RAM budget."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Run the pipeline on a sample and multiply."""
        try:
            needed = site.measurements.cache_bytes(self.pipeline)
        except MeasurementError as unknown:
            return Proof(False, f"its size is not known: {unknown}")
        needed_text = f"{needed / _MEBIBYTE:,.1f} MiB"
        budget = f"{site.measurements.ram_budget / _MEBIBYTE:,.0f} MiB"
        if needed > site.measurements.ram_budget:
            return Proof(False, f"it would take {needed_text}, above the RAM budget of {budget}")
        return Proof(True, f"it takes {needed_text} of a RAM budget of {budget}")


@dataclass(frozen=True)
class HasBatchedForm:
    """A function of one element can be turned into a function of a batch."""

    fn: Function
    batch_size: int | None

    def check(self, site: Site) -> Proof:
        """Trace the batched form."""
        try:
            vectorize(self.fn, self.batch_size)
        except NotVectorizableError as reason:
            return Proof(False, str(reason))
        return Proof(True, f"{self.fn} only computes, and every op of it has a batched form")


@dataclass(frozen=True)
class SameOnSample:
    """Both pipelines give the same elements on a sample of the user's own."""

    before: ir.Node = field(repr=False)
    after: ir.Node = field(repr=False)
    over: ir.Node = field(repr=False)
    exact: bool

    def check(self, site: Site) -> Proof:
        """Run both and compare."""
        try:
            difference = site.measurements.same(self.before, self.after, self.over, self.exact)
        except MeasurementError as unknown:
            return Proof(False, f"the two could not be compared: {unknown}")
        if difference:
            return Proof(False, f"on your elements the results differ: {difference}")
        return Proof(True, f"equal on a sample of your elements{'' if self.exact else ' up to float rounding'}")


@dataclass(frozen=True)
class Faster:
    """The rewritten pipeline is faster on the user's own elements."""

    before: ir.Node = field(repr=False)
    after: ir.Node = field(repr=False)
    over: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Time both, interleaved."""
        try:
            median, low, high = site.measurements.speed(self.before, self.after, self.over)
        except MeasurementError as unknown:
            return Proof(False, f"it could not be timed: {unknown}")
        figures = f"{median:.2f}x ({low:.2f}-{high:.2f}) the speed on your elements"
        return Proof(median >= _LEAST_GAIN and low > 1, f"measured {figures}")
