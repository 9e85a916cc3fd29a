from __future__ import annotations

import time
from typing import Any

from autopipe.callbacks._watching import WatchingCallback
from autopipe.pipeline import ir
from autopipe.planning.costs.profile import Profile, Stretch
from autopipe.planning.costs.profiling import Epoch, Looks, profile_of
from autopipe.printing import show
from autopipe.report.epochs import epochs_table
from autopipe.runtime.readings import Reading

__all__ = ["PipelineMonitor"]

_SECONDS_BETWEEN_LOOKS = 1.0
# The epoch that fills caches, and one that reads them, are always looked at; later ones within this share of the time.
_ALWAYS_LOOKED_AT = 2
_SHARE_FOR_LOOKS = 0.0002


class PipelineMonitor(WatchingCallback):
    """Measures the input of a training run and changes nothing.

    Puts ``input_stall``, ``host_utilization`` and, where there is a GPU, ``gpu_utilization`` into the logs of each
    epoch, all 0 to 1, and ``steps_per_second``, so that ``History``, ``CSVLogger`` and ``TensorBoard`` show them. The
    dataset given to ``fit`` must be one that ``autopipe.optimize`` returned; with ``rules=()`` it is the pipeline as
    it was written. In a training loop of your own it is a context manager whose ``step()`` is called after every step.
    Several trainings at once, in threads, need a monitor each.

    Args:
        verbose: 1 prints these figures, and what each stage cost, when training ends.

    >>> import autopipe, keras, tensorflow as tf
    >>> data = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(8)
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> monitor = autopipe.callbacks.PipelineMonitor()
    >>> seen = model.fit(autopipe.optimize(data, seconds=0), verbose=0, callbacks=[monitor])
    >>> 0 <= seen.history["input_stall"][0] <= 1
    True
    >>> [stage.stage for stage in monitor.profile.stages][:2]
    ['tensors', 'repeat(8)']
    """

    def __init__(self, verbose: int = 0) -> None:
        super().__init__()
        self.verbose = verbose

    def _reset(self) -> None:
        super()._reset()
        self._looks: Looks | None = None
        # The tree of the first iterator: a tuner may give later ones other stages.
        self._tree: ir.Node | None = None
        self._batches_in_step = 1
        self._epochs: list[Epoch] = []
        self._epoch_was_seen = False
        self._looked_at, self._seconds_for_looks = 0, 0.0
        self._began = time.perf_counter()
        self._figures: dict[int, dict[str, float]] = {}

    @property
    def profile(self) -> Profile | None:
        """What each stage costs in this training, so far; ``None`` before anything was measured.

        The figures are those of :func:`autopipe.profile`, at the pace of the model. The first two epochs are measured,
        and as many of the later ones as fit into 0.02% of the time. There are no figures if
        ``options.autotune.enabled`` is ``False``.
        """
        seen = [*self._epochs, *([self._looks.epoch()] if self._looks else [])]
        return profile_of(self._tree, seen) if self._tree and any(e.looks for e in seen) else None

    def _follow(self, reading: Reading) -> None:
        """Look at the stages of a new iterator from now on; Keras makes one for every epoch."""
        before = self._reading
        super()._follow(reading)
        self._keep_looks()
        if self._tree is None or before is None or not reading.has_stages_of(before):
            self._tree = reading.tree
        self._look_at(reading)

    def _forget_followed(self) -> None:
        """Leave out its looks, too."""
        super()._forget_followed()
        looks, self._looks = self._looks, None
        if looks is not None:
            looks.stop()

    def _returned(self, reading: Reading) -> None:
        """Look at its stages again."""
        self._keep_looks()
        # Its element was taken already.
        self._step_begun = False
        self._look_at(reading)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep looking, if one iterator serves several epochs."""
        super().on_epoch_begin(epoch, logs)
        if self._looks is None and self._reading is not None:
            self._look_at(self._reading)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Start to listen."""
        super().on_train_begin(logs)
        # Not later: within an epoch, with JAX, the variables of a model are elsewhere, and accessing the model moves
        # them. In a custom training loop there is no model, or that of an earlier fit().
        self._batches_in_step = 1 if self._in_loop else int(getattr(self.model, "steps_per_execution", 1) or 1)

    def _look_at(self, reading: Reading) -> None:
        if self._tree is None or reading.iterator() is None:
            return
        if reading.counts_its_stages and self._may_look():
            metered = reading.stall is not None
            self._looks = Looks(self._tree, reading.iterator, metered=metered, distance=_SECONDS_BETWEEN_LOOKS)

    def _may_look(self) -> bool:
        most = _SHARE_FOR_LOOKS * (time.perf_counter() - self._began)
        return self._looked_at < _ALWAYS_LOOKED_AT or self._seconds_for_looks < most

    def _step_ended(self) -> None:
        """Look at the stages if it is time to."""
        if self._looks is not None:
            self._looks.count(self._batches_in_step)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Put the epoch's figures into its logs."""
        figures: dict[str, float] = {}
        super().on_epoch_end(epoch, figures)
        if logs is not None:
            logs.update(figures)
        if figures:
            # Keras counts epochs from 0 here, and from 1 in its output.
            self._figures[epoch + 1] = figures

    def _epoch_ended(self, stretch: Stretch) -> None:
        """Count its elements if no look did."""
        self._keep_looks()
        if not self._epoch_was_seen and stretch.elements:
            self._epochs.append(Epoch(stretch, (), complete=True))
        self._epoch_was_seen = False

    def _looked_away(self, stretch: Stretch) -> None:
        """Leave the stretch out of the costs of stages, too."""
        if self._looks is not None:
            self._looks.leave_out(stretch)

    def _keep_looks(self) -> None:
        """Stop looking at this iterator, and keep what was seen."""
        looks = self._looks
        if looks is None:
            return
        if self._step_begun:
            # The end of the last step is not reported: the next iterator was made, or the epoch is over.
            self._step_begun = False
            self._step_ended()
        self._looks = None
        if not looks.elements:
            looks.stop()
            return
        seen = looks.epoch()
        self._epochs.append(seen if self._looked_at < _ALWAYS_LOOKED_AT else seen.in_brief())
        self._epoch_was_seen = True
        self._looked_at += bool(seen.looks)
        self._seconds_for_looks += looks.seconds

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Stop listening."""
        self._keep_looks()
        super().on_train_end(logs)
        # A monitor that is kept need not keep what the caches of its dataset hold.
        self._reading = None
        self._readings = []
        if not self.verbose or not self._figures:
            return
        show(epochs_table(self._figures))
        if self.profile is not None:
            show(str(self.profile))
