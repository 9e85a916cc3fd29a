"""What takes the batches of a case: its model, ready to train, and a batch for it that costs nothing to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from benchmarks.cases._base import Case
from benchmarks.models import make_model

__all__ = ["BatchInMemory", "compiled"]


@dataclass(frozen=True)
class BatchInMemory:
    """A batch in memory, and the datasets made of it; they have the specs that the case's pipelines have.

    Attributes:
        rows: its elements one by one.
        size: how many they are.
        steps: batches in an epoch of the case.
        rest: the size of the last of them, where it is smaller; else 0.
    """

    rows: Any
    size: int
    steps: int
    rest: int

    @classmethod
    def of(cls, case: Case, data: Any) -> BatchInMemory:
        """Take the first batch that the case's pipeline gives."""
        batch = next(iter(case.naive(data)))
        size = int(tf.nest.flatten(batch)[0].shape[0])
        units = case.units_per_epoch(data)
        return cls(tf.data.Dataset.from_tensor_slices(batch), size, -(-units // size), units % size)

    def free(self, epochs: int = 1) -> Any:
        """Return an epoch of the one batch, as long as so many of the case's; a batch costs nothing to make."""
        return self.rows.batch(self.size).cache().repeat(epochs * self.steps)

    def every_shape(self) -> Any:
        """Return a batch of each size there is in an epoch."""
        whole = self.rows.batch(self.size)
        return whole.concatenate(self.rows.take(self.rest).batch(self.size)) if self.rest else whole


def compiled(name: str, memory: BatchInMemory, *, large: bool = False) -> Any:
    """Return a new model that has traced its step for every size of batch; its weights are the initial ones."""
    model = make_model(name, memory.free().element_spec, large=large)
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    initial = [variable.numpy() for variable in variables]
    model.fit(memory.every_shape(), verbose=0, shuffle=False)
    for variable, value in zip(variables, initial, strict=True):
        variable.assign(value)
    return model
