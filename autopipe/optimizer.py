"""The driver: tries every rule everywhere until nothing changes, and keeps the record of why."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat

import tensorflow as tf

from autopipe.errors import AutopipeError, RewriteError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import op_determinism_enabled
from autopipe.pipeline.fusing import what_fuses_otherwise
from autopipe.pipeline.knobs import with_thread_pool
from autopipe.pipeline.signature import Signature, signature
from autopipe.pipeline.symbolic_checkpoints import who_is_saved_no_more
from autopipe.pipeline.text import one_line, stage
from autopipe.rules import (
    Keeps,
    MeasurementError,
    Measurements,
    NotCachedYet,
    Proof,
    Rewrite,
    Rule,
    Site,
    decides_caches,
)

__all__ = ["Refusal", "Rewriting", "Step", "new_caches", "rewrite"]

# More than any pipeline has been seen to take: of a hundred parts that are drawn among, each takes two or three.
_MOST_STEPS, _MOST_STEPS_FOR_A_STAGE = 200, 20
_PARALLEL = ir.Mapping | ir.Interleave
_NOT_SAVED = (
    "the author set options.experimental_symbolic_checkpoint to True, and iterators with {} are not saved and restored "
    "so"
)
_SHOWN_TO_FAIL = "it makes shapes known with which TensorFlow refuses to make what follows"


@dataclass(frozen=True)
class Step:
    """A rewrite that happened: by which rule, of what into what, what it keeps, the proofs and the whole pipeline.

    Its place is the stage that the rule changed, by its number in the pipeline as it was then, from the end.
    """

    rule: str
    before: str
    after: str
    keeps: Keeps
    proofs: tuple[Proof, ...]
    tree: ir.Node = field(repr=False, compare=False)
    place: int = field(repr=False, compare=False)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it may happen; what is said of several functions in the same words is said once."""
        return tuple(dict.fromkeys(proof.because for proof in self.proofs if proof.because))


@dataclass(frozen=True)
class Refusal:
    """A rewrite that did not happen: by which rule, where, the reason, and whether a time decided it."""

    rule: str
    where: str
    reason: str
    timed: bool = False


@dataclass(frozen=True)
class Rewriting:
    """A rewritten pipeline with the record of how it came to be.

    Attributes:
        before: the pipeline as written.
        after: the pipeline as it will run.
        steps: what was done, in order.
        refusals: what was not done, and why.
        new_cache_bytes: memory that caches will fill which the author did not write there.
        verified: what was compared, if it was verified.
        whole: how fast it was beside the pipeline as written, or why that was not measured.
    """

    before: ir.Node
    after: ir.Node
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]
    new_cache_bytes: int = 0
    verified: str | None = None
    whole: str | None = None

    @property
    def tunable(self) -> ir.Node:
        """The pipeline as it will run, with the threads it runs on unless its author chose them: its knobs are all."""
        return with_thread_pool(self.after)


def rewrite(
    tree: ir.Node,
    rules: Sequence[Rule],
    *,
    keeps: Keeps,
    measurements: Measurements,
    script: Sequence[tuple[Rule, int | None]] = (),
) -> Rewriting:
    """Apply rules to a pipeline until none of them changes it any more.

    Args:
        tree: the pipeline as it was written.
        rules: the rules to try, in this order, each at every node from the end to the sources.
        keeps: what must be kept. Where the author asked for reproducibility, the sequence is.
        measurements: what obligations ask about the user's elements.
        script: rules to apply before that, each once, in this order, at its place if that is given. All ends where one
            does not apply.

    Returns:
        The rewritten pipeline, its steps and what was refused.

    Raises:
        RewriteError: if a rule changes the type or the number of elements, or never comes to an end; it is named.
    """
    state = ir.End(input=tree)
    known = signature(tree)
    driver = _Driver(keeps, measurements)
    steps: list[Step] = []
    filled = 0
    most = _MOST_STEPS + _MOST_STEPS_FOR_A_STAGE * len(list(trees.inputs_first(tree)))
    for turn, place in chain((((each,), place) for each, place in script), repeat((rules, None))):
        found = driver.first_rewrite(state, turn, place)
        if found is None:
            break
        state, step = found
        steps.append(step)
        known = _checked(step, known)
        if decides_caches(step.rule):
            filled = _new_cache_bytes(tree, state.input, measurements, filled)
        if len(steps) > most:
            raise RewriteError(
                f"Rules must come to an end, but {step.rule} was still applied after {most} steps. "
                "Leave it out with optimize(rules=...), and report this."
            )
    filled = _new_cache_bytes(tree, state.input, measurements, filled)
    return Rewriting(tree, state.input, tuple(steps), driver.standing_refusals(state), filled)


def _new_cache_bytes(before: ir.Node, after: ir.Node, measurements: Measurements, known: int) -> int:
    """Return the bytes that caches will fill which the author did not write.

    Each was measured where it was put. What a later rule made of the stages before it may hide how many elements
    there are; then what is known already stands.
    """
    try:
        return sum(measurements.cache_bytes(node.kept) for node in new_caches(before, after) if node.in_memory)
    except MeasurementError:
        return known


def new_caches(before: ir.Node, after: ir.Node) -> list[ir.Keeping]:
    """Return the caches in a rewritten pipeline that its author did not write."""
    written = set(trees.walk(before))
    return [node for node in trees.keeping(after) if node not in written]


def _checked(step: Step, before: Signature) -> Signature:
    """Return the signature after a step: no rule may change it, except to make it more precise."""
    now = signature(step.tree)
    if not now.refines(before):
        raise RewriteError(
            f"A rule must keep the type and number of elements, but {step.rule} turned {before} into {now} "
            f"at {step.before}. Leave it out with optimize(rules=...), and report this."
        )
    return now


@dataclass
class _Driver:
    """Tries rules at every node, and asks no rule twice at a node where it was refused."""

    keeps: Keeps
    measurements: Measurements
    refused: dict[tuple[str, ir.Node], Refusal] = field(default_factory=dict)
    not_tried: dict[str, Refusal] = field(default_factory=dict)

    def first_rewrite(
        self, state: ir.End, rules: Sequence[Rule], only_at: int | None = None
    ) -> tuple[ir.End, Step] | None:
        """Return what becomes of the pipeline by the first rewrite that is allowed, and the record of it."""
        cached = {below for node in trees.keeping(state) for below in trees.walk(node)}
        for rule in rules:
            if self.measurements.exhausted and rule.measures:
                self.not_tried[rule.name] = Refusal(rule.name, "the pipeline", self.measurements.exhausted)
                continue
            for place, site in enumerate(trees.walk(state)):
                if only_at not in (None, place):
                    continue
                if (rule.name, site) in self.refused or (site in cached and rule.may_ask(NotCachedYet)):
                    continue
                outcome = self._tried(rule, site, place, state)
                if isinstance(outcome, Step):
                    return ir.End(input=outcome.tree), outcome
                if outcome is not None:
                    self.refused[rule.name, site] = outcome
        return None

    def standing_refusals(self, state: ir.End) -> tuple[Refusal, ...]:
        """Return the refusals at nodes that are still there, and that their author knows."""
        standing = set(trees.walk(state)) - set(_drawing(state))
        refused = (each for (_, site), each in self.refused.items() if site in standing and each.reason)
        return (*refused, *self.not_tried.values())

    def _tried(self, rule: Rule, site: ir.Node, place: int, state: ir.End) -> Step | Refusal | None:
        """Return what a rule makes of a stage, or why it may not; ``None`` if it is not for such a stage.

        An error of its own is a reason to leave the stage as it is, and to tell of it.
        """
        try:
            candidate = rule(site)
            if candidate is None:
                return None
            candidate = replace(candidate, result=_in_order(candidate.result, site, state))
            return self._judge(rule, site, place, state, candidate)
        except (AutopipeError, MemoryError, tf.errors.OpError):
            raise
        except Exception as error:
            failed = f"it failed with {type(error).__name__}: {error}"
            warnings.warn(
                f"A rule must apply or refuse, but {rule.name} did neither at {_place(site)}: {failed}. That stage "
                "stays as it is. Leave the rule out with optimize(rules=...), and report this.",
                stacklevel=2,
            )
            return Refusal(rule.name, _place(site), failed)

    def _judge(self, rule: Rule, site: ir.Node, place: int, state: ir.End, candidate: Rewrite) -> Step | Refusal:
        offered = rule.keeps if candidate.keeps is None else candidate.keeps
        demanded, why = _demanded(state, site, candidate.result, self.keeps)
        if offered < demanded:
            return Refusal(rule.name, _place(site), f"it keeps {offered} only{_since(candidate, offered)}, and {why}")
        proofs: list[Proof] = []
        for obligation in candidate.provided:
            proof = obligation.check(Site(site, state, demanded, self.keeps, self.measurements))
            if not proof.holds:
                return Refusal(rule.name, _place(site), proof.because, proof.timed)
            proofs.append(proof)
        if candidate.result == site:
            return Refusal(rule.name, _place(site), "it would change nothing")
        before, after = _changed_text(site, candidate.result)
        changed = trees.substitute(state, site, candidate.result)
        assert isinstance(changed, ir.End)
        fused = what_fuses_otherwise(changed, before=state)
        if fused is not None:
            return Refusal(rule.name, _place(site), fused)
        unsaved = who_is_saved_no_more(changed, before=state)
        if unsaved is not None:
            return Refusal(rule.name, _place(site), _NOT_SAVED.format(stage(unsaved)))
        try:
            signature(changed.input)
        except (TypeError, ValueError) as impossible:
            return Refusal(rule.name, _place(site), f"{_SHOWN_TO_FAIL}: {impossible}")
        kept = min([offered, *(proof.keeps for proof in proofs)])
        return Step(rule.name, before, after, kept, tuple(proofs), changed.input, place)


def _drawing(state: ir.End) -> Iterator[ir.Node]:
    """Yield the stages by which ``sample_from_datasets`` draws among datasets: it has put them there itself."""
    choices = (node.choices for node in trees.walk(state) if isinstance(node, ir.ChooseFrom))
    for node in chain.from_iterable(map(trees.walk, choices)):
        if any(isinstance(each, ir.RandomNumbers) for each in trees.walk(node)):
            yield node


def _since(candidate: Rewrite, offered: Keeps) -> str:
    """Return why a rewrite keeps the elements only, as what it must prove tells."""
    if offered is not Keeps.ELEMENTS:
        return ""
    differing = (getattr(each, "lets_differ", None) for each in candidate.provided)
    return next((f", since {each}" for each in differing if each), "")


def _in_order(result: ir.Node, site: ir.Node, state: ir.End) -> ir.Node:
    """Return what a rule makes of a site, with the order of what it makes parallel.

    ``options.deterministic=False`` frees that of parallel stages, and of no other: its author may rely on it, also
    where it comes after what was optimized.
    """
    stages = set(trees.walk(site))
    removed = [node for node in stages - set(trees.walk(result)) if isinstance(node, _PARALLEL)]
    if removed and all(node.num_parallel_calls and not node.in_order for node in removed):
        return result
    is_free = trees.frees_order(state)

    def ordered(node: ir.Node) -> ir.Node:
        if not isinstance(node, _PARALLEL) or node in stages or node.deterministic is not None:
            return node
        if not node.num_parallel_calls:
            return node
        return replace(node, deterministic=True) if is_free else replace(node, in_order=True)

    return trees.transform(result, ordered)


def _demanded(state: ir.End, site: ir.Node, result: ir.Node, keeps: Keeps) -> tuple[Keeps, str]:
    """Return what must be kept at a site and why: the author's own wish for reproducibility outranks ``keeps``."""
    if op_determinism_enabled():
        return Keeps.SEQUENCE, "op determinism is enabled"
    if trees.fixes_order(state):
        return Keeps.SEQUENCE, "the author set options.deterministic to True"
    kept = set(trees.walk(result))
    for node in (node for node in trees.walk(site) if node not in kept):
        if isinstance(node, ir.Shuffle) and node.seeded:
            # It is unknown whether the seed came from the author, from Keras, or from tf.random.set_seed.
            return Keeps.SEQUENCE, f"{stage(node)} has a seed"
        if getattr(node, "deterministic", None) is True:
            return Keeps.SEQUENCE, f"the author asked for deterministic=True in {stage(node)}"
    return keeps, f'keeps="{keeps}" was asked for'


def _text(node: ir.Node) -> str:
    return one_line(node.input if isinstance(node, ir.End) else node)


def _place(site: ir.Node) -> str:
    """Return where a site is: its last two stages."""
    node = site.input if isinstance(site, ir.End) else site
    if len(node.inputs) != 1:
        return _text(node)
    (before,) = node.inputs
    return f"{'... | ' if before.inputs else ''}{stage(before)} | {stage(node)}"


def _changed_text(before: ir.Node, after: ir.Node) -> tuple[str, str]:
    """Return both sides without the stages they share at the source end."""
    shared = next((node for node in trees.walk(before) if node in set(trees.walk(after))), None)
    if shared is None:
        return _text(before), _text(after)
    whole = one_line(shared)
    return _text(before).replace(whole, "...", 1), _text(after).replace(whole, "...", 1)
