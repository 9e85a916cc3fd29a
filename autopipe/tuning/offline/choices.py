"""What an offline search chooses among: structures of the pipeline, and the knobs of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autopipe.pipeline.knobs import read_knobs
from autopipe.planning.memory.machine import Machine, threads_left
from autopipe.search_spaces import SearchSpace, ask
from autopipe.tuning.offline.structures import OPTIMIZED
from autopipe.tuning.search.distributions import fits, suggest
from autopipe.tuning.search.first_tries import first_tries
from autopipe.tuning.search.limits import most_threads, within
from autopipe.tuning.studies import load_optuna, refuse_other_choices

if TYPE_CHECKING:
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["Choice", "Choices"]

_STRUCTURE = "structure"


@dataclass(frozen=True)
class Choice:
    """One setting: a structure, by its name, and the numbers of its knobs."""

    structure: str
    knobs: Mapping[str, int]


@dataclass(frozen=True)
class Choices:
    """All settings.

    Attributes:
        datasets: the structures, by name; the first is the pipeline as it was given.
        spaces: what the knobs of each structure may be.
        most: the largest values of the knobs of each structure on this machine, whatever a study proposes.
    """

    datasets: Mapping[str, OptimizedDataset]
    spaces: Mapping[str, Mapping[str, Any]]
    most: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, dataset: OptimizedDataset, space: SearchSpace, others: Mapping[str, OptimizedDataset] | None = None
    ) -> Choices:
        """Return the choices among a pipeline and others that yield the same."""
        load_optuna()
        datasets = {OPTIMIZED: dataset, **(others or {})}
        machine, left = Machine.here(), threads_left()
        knobs = {name: read_knobs(each.tree) for name, each in datasets.items()}
        everywhere = [knob for each in knobs.values() for knob in each]
        spaces = {name: ask(space, each, machine, others=everywhere) for name, each in knobs.items()}
        return cls(datasets, spaces, {name: most_threads(each, left, machine) for name, each in knobs.items()})

    @property
    def given(self) -> Choice:
        """The pipeline as it was given, with its knobs as they are now."""
        return Choice(OPTIMIZED, dict(self.datasets[OPTIMIZED].knobs))

    @property
    def none(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.datasets) == 1 and not self.spaces[OPTIMIZED]

    def ask(self, trial: Any) -> Choice:
        """Let a trial of Optuna choose. Each structure has its own parameters, since it has its own knobs."""
        names = list(self.datasets)
        structure = trial.suggest_categorical(_STRUCTURE, names) if len(names) > 1 else names[0]
        chosen = {
            name: suggest(trial, _parameter(structure, name), distribution)
            for name, distribution in self.spaces[structure].items()
        }
        return self._possible(structure, chosen)

    def of_trial(self, trial: Any) -> Choice | None:
        """Return what a trial chose; ``None`` if its structure or its knobs do not exist here."""
        structure = trial.params.get(_STRUCTURE, OPTIMIZED)
        if structure not in self.datasets:
            return None
        chosen = {name: trial.params.get(_parameter(structure, name)) for name in self.spaces[structure]}
        if any(value is None for value in chosen.values()):
            return None
        return self._possible(structure, chosen)

    def _possible(self, structure: str, chosen: Mapping[str, int]) -> Choice:
        possible = within(self.most.get(structure, {}), chosen, self.spaces[structure])
        return Choice(structure, {**self.datasets[structure].knobs, **possible})

    def to_try_first(self) -> list[dict[str, Any]]:
        """Return, as Optuna parameters, each other structure as it stands, and the numbers that help most often."""
        machine = Machine.here()
        first = [self._parameters(name, each.knobs) for name, each in self.datasets.items() if name != OPTIMIZED]
        for name, each in self.datasets.items():
            usual = first_tries(read_knobs(each.tree), machine)
            first += [self._parameters(name, {**each.knobs, **numbers}) for numbers in usual]
        return first

    def refuse_other_choices(self, study: Any) -> None:
        """Raise if trials of a study chose among something else by the same name: Optuna cannot continue such a study.

        Raises:
            ArgumentError: if one did.
        """
        refuse_other_choices(study, self._distributions())

    def _distributions(self) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution

        found = {
            _parameter(structure, name): distribution
            for structure, space in self.spaces.items()
            for name, distribution in space.items()
        }
        structures = {_STRUCTURE: CategoricalDistribution(tuple(self.datasets))} if len(self.datasets) > 1 else {}
        return structures | found

    def _parameters(self, structure: str, knobs: Mapping[str, int]) -> dict[str, Any]:
        space = self.spaces[structure].items()
        fitting = {_parameter(structure, name): knobs[name] for name, of in space if fits(knobs[name], of)}
        return {_STRUCTURE: structure, **fitting} if len(self.datasets) > 1 else fitting


def _parameter(structure: str, knob: str) -> str:
    return f"{structure}: {knob}"
