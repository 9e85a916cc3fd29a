"""The driver: tries every rule everywhere until nothing changes, and keeps the record of why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autopipe.errors import RewriteError
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import op_determinism_enabled
from autopipe.pipeline.text import one_line, stage
from autopipe.rules import Keeps, Measurements, Proof, Rewrite, Rule, Site

__all__ = ["Refusal", "Rewriting", "Step", "rewrite"]

_MOST_STEPS = 200


@dataclass(frozen=True)
class Step:
    """A rewrite that happened: by which rule, of what into what, what it keeps and the proofs."""

    rule: str
    before: str
    after: str
    keeps: Keeps
    proofs: tuple[Proof, ...]


@dataclass(frozen=True)
class Refusal:
    """A rewrite that did not happen: by which rule, where, and the reason."""

    rule: str
    where: str
    reason: str


@dataclass(frozen=True)
class Rewriting:
    """A rewritten pipeline with the record of how it came to be."""

    before: ir.Node
    after: ir.Node
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]


def rewrite(tree: ir.Node, rules: Sequence[Rule], *, keeps: Keeps, measurements: Measurements) -> Rewriting:
    """Apply rules to a pipeline until none of them changes it any more.

    Args:
        tree: the pipeline as it was written.
        rules: the rules to try, in this order, each at every node from the end to the sources.
        keeps: what must be kept. Where the author asked for reproducibility, the sequence is.
        measurements: what obligations ask about the user's elements.

    Returns:
        The rewritten pipeline, its steps and what was refused.

    Raises:
        RewriteError: if a rule changes the type or the number of elements; the rule is named.
    """
    state = ir.End(input=tree)
    signature = _Signature.of(tree)
    steps: list[Step] = []
    refused: dict[tuple[str, ir.Node], Refusal] = {}
    while found := _first_rewrite(state, rules, keeps, measurements, refused):
        site, result, step = found
        changed = ir.substitute(state, site, result)
        assert isinstance(changed, ir.End)
        state = changed
        steps.append(step)
        signature.check(state.input, step)
        if len(steps) > _MOST_STEPS:
            raise RewriteError(f"Rules must come to an end, but {step.rule} was applied {_MOST_STEPS} steps on.")
    standing = set(ir.walk(state))
    refusals = tuple(refusal for (_, site), refusal in refused.items() if site in standing)
    return Rewriting(tree, state.input, tuple(steps), refusals)


def _first_rewrite(
    state: ir.End,
    rules: Sequence[Rule],
    keeps: Keeps,
    measurements: Measurements,
    refused: dict[tuple[str, ir.Node], Refusal],
) -> tuple[ir.Node, ir.Node, Step] | None:
    for site, rule in _sites(state, rules):
        if (rule.name, site) in refused:
            continue
        candidate = rule(site)
        if candidate is None:
            continue
        outcome = _judge(rule, site, state, candidate, keeps, measurements)
        if isinstance(outcome, Step):
            return site, candidate.result, outcome
        refused[rule.name, site] = outcome
    return None


def _sites(state: ir.End, rules: Sequence[Rule]) -> Iterator[tuple[ir.Node, Rule]]:
    for rule in rules:
        for node in ir.walk(state):
            yield node, rule


def _judge(
    rule: Rule, site: ir.Node, state: ir.End, candidate: Rewrite, keeps: Keeps, measurements: Measurements
) -> Step | Refusal:
    offered = rule.keeps if candidate.keeps is None else candidate.keeps
    demanded, why = _demanded(site, candidate.result, keeps)
    if offered < demanded:
        return Refusal(rule.name, _place(site), f"it keeps {offered} only, and {why}")
    proofs: list[Proof] = []
    for obligation in candidate.provided:
        proof = obligation.check(Site(site, state, demanded, measurements))
        if not proof.holds:
            return Refusal(rule.name, _place(site), proof.because)
        proofs.append(proof)
    before, after = _changed_text(site, candidate.result)
    return Step(rule.name, before, after, offered, tuple(proofs))


def _demanded(site: ir.Node, result: ir.Node, keeps: Keeps) -> tuple[Keeps, str]:
    """Return what must be kept at a site and why: the author's own wish for reproducibility outranks ``keeps``."""
    if op_determinism_enabled():
        return Keeps.SEQUENCE, "op determinism is enabled"
    kept = set(ir.walk(result))
    for node in (node for node in ir.walk(site) if node not in kept):
        if isinstance(node, ir.Shuffle) and node.seeded:
            return Keeps.SEQUENCE, f"the author gave {stage(node)} a seed"
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
    shared = next((node for node in ir.walk(before) if node in set(ir.walk(after))), None)
    if shared is None:
        return _text(before), _text(after)
    whole = one_line(shared)
    return _text(before).replace(whole, "...", 1), _text(after).replace(whole, "...", 1)


@dataclass(frozen=True)
class _Signature:
    """What no rule may change: the type of the elements and, where it is known, their number."""

    element_spec: Any
    cardinality: int

    @classmethod
    def of(cls, tree: ir.Node) -> _Signature:
        dataset = build(tree)
        return cls(dataset.element_spec, int(dataset.cardinality()))

    def check(self, tree: ir.Node, step: Step) -> None:
        now = _Signature.of(tree)
        if now != self:
            raise RewriteError(
                f"A rule must keep the type and number of elements, but {step.rule} turned {self} into {now} "
                f"at {step.before}. Leave it out with optimize(rules=...), and report this."
            )
