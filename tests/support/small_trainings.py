"""Small trainings on optimized datasets."""

from recording import ROWS, rows

import autopipe

__all__ = ["BATCH", "STEPS", "beside", "dataset", "same", "train"]

BATCH = 8
STEPS = ROWS // BATCH


def same(x, y):
    return x * 1, y


def dataset(**arguments):
    made = rows().shuffle(20).map(same).batch(BATCH)
    return autopipe.optimize(made, seconds=0, **arguments)


def train(model, data, callbacks, **arguments):
    return model.fit(data, verbose=0, callbacks=callbacks, **arguments)


def beside():
    """Return a dataset with other knobs than that of training."""
    return autopipe.optimize(rows().batch(6), rules=())
