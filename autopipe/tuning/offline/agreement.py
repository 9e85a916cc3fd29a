"""What all processes that search one study agree on: the pipelines, and their consumer.

Otherwise each might derive other pipelines from its own measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autopipe.api import optimize
from autopipe.errors import ArgumentError
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.planning.plans.plan import Plan
from autopipe.rules import catalogue
from autopipe.tuning.offline.structures import OPTIMIZED, as_planned, structures
from autopipe.tuning.studies import reaching_storage

if TYPE_CHECKING:
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["Agreement", "agreed_pipelines"]

_KEPT_AS = "autopipe:pipelines"
_REMEDY = "Take a study of another name (--study)."


@dataclass(frozen=True)
class Agreement:
    """What a study chooses among.

    Attributes:
        keeps: the promise that was asked for.
        numbers_only: whether only one structure was asked for.
        consumer: what reads the pipelines, as the options of the command say it; empty for one that reads as fast as
            it can. What is fastest for one consumer may not be for another.
        plans: the plan of each structure, by its name.
    """

    keeps: str
    numbers_only: bool
    consumer: str
    plans: Mapping[str, Plan]

    @classmethod
    def of_study(cls, study: Any) -> Agreement | None:
        """Return what a study began with; ``None`` if nothing is agreed on yet.

        Raises:
            PlanError: if this release cannot read it.
            StorageError: if the storage cannot be reached.
        """
        with reaching_storage():
            kept = [trial for trial in study.get_trials(deepcopy=False) if _KEPT_AS in trial.user_attrs]
        if not kept:
            return None
        first = json.loads(min(kept, key=lambda trial: trial.number).user_attrs[_KEPT_AS])
        plans = {name: Plan.from_json(text, "the study") for name, text in first["plans"]}
        return cls(first["keeps"], first["numbers_only"], first.get("consumer", ""), plans)

    def propose(self, study: Any) -> Agreement:
        """Propose this, and return what was proposed first.

        It is kept in a failed trial of its own: of all that Optuna's storages keep, only trials have an order that all
        processes see.

        Raises:
            StorageError: if the storage cannot be reached.

        >>> from autopipe.tuning.studies import open_study
        >>> study = open_study()
        >>> [Agreement(keeps, True, "", {}).propose(study).keeps for keeps in ("training", "elements")]
        ['training', 'training']
        """
        from optuna.trial import TrialState, create_trial

        plans = [[name, plan.to_json()] for name, plan in self.plans.items()]
        asked = {"keeps": self.keeps, "numbers_only": self.numbers_only, "consumer": self.consumer}
        text = json.dumps({**asked, "plans": plans})
        with reaching_storage():
            # When a trial is added as failed, Optuna before 5.0 takes all earlier ones as known.
            study.add_trial(create_trial(state=TrialState.RUNNING, user_attrs={_KEPT_AS: text}))
            first = self.of_study(study)
            for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                if trial.user_attrs.get(_KEPT_AS) == text:
                    study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
        assert first is not None
        return first

    def refuse_another(self, identity: str, keeps: str, *, numbers_only: bool, consumer: str) -> None:
        """Raise if another search than this is asked for.

        Args:
            identity: the fingerprint of the pipeline.
            keeps: the promise asked for.
            numbers_only: whether only one structure is asked for.
            consumer: what is to read it.

        Raises:
            ArgumentError: if it is another search.
        """
        began = self.plans[OPTIMIZED].fingerprint
        if began != identity:
            raise ArgumentError(
                f"A study must go on with the pipeline it began with, whose fingerprint is {began}, but it is "
                f"{identity} here: a stage, an argument or a function has changed. {_REMEDY}"
            )
        began_with, asked = (self.keeps, self.numbers_only, self.consumer), (keeps, numbers_only, consumer)
        if began_with != asked:
            raise ArgumentError(
                f"A study must go on as it began, which was with {_options(*began_with)}, but got {_options(*asked)}. "
                f"{_REMEDY}"
            )
        unknown = {rule for plan in self.plans.values() for rule in plan.rules} - {rule.name for rule in catalogue()}
        if unknown:
            raise ArgumentError(
                f"A study must go on with the rules it began with, but this release has no {min(unknown)}. {_REMEDY}"
            )


def agreed_pipelines(
    study: Any, dataset: Any, *, keeps: str, numbers_only: bool, consumer: str = ""
) -> dict[str, OptimizedDataset]:
    """Return the pipelines that a study chooses among, by their names; the first process finds them.

    Args:
        study: an Optuna study that other processes may share.
        dataset: the pipeline as it was written.
        keeps: the promise that every one of them keeps.
        numbers_only: whether there is to be only one structure.
        consumer: what reads them, as the options of the command say it.

    Raises:
        ArgumentError: if the study began with another pipeline, or another search.
        PlanError: if this release cannot read what it began with.
        StorageError: if its storage cannot be reached.
    """
    first = Agreement.of_study(study)
    if first is None:
        found = {OPTIMIZED: optimize(dataset, keeps=keeps)}
        if not numbers_only:
            found = structures(found[OPTIMIZED])
        own = Agreement(keeps, numbers_only, consumer, {name: each.plan for name, each in found.items()})
        first = own.propose(study)
        if first == own:
            return found
    first.refuse_another(fingerprint(extract(dataset)), keeps, numbers_only=numbers_only, consumer=consumer)
    return as_planned(dataset, first.plans)


def _options(keeps: str, numbers_only: bool, consumer: str) -> str:
    return f"--keeps {keeps}{' --numbers-only' if numbers_only else ''}{f' {consumer}' if consumer else ''}"
