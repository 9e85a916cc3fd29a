"""The callback named as this file."""

from autopipe.callbacks._watching import WatchingCallback

__all__ = ["PipelineMonitor"]


class PipelineMonitor(WatchingCallback):
    """Measures the input of a training run and changes nothing.

    Puts ``input_stall`` and, where there is a GPU, ``gpu_utilization`` into the logs of each epoch, both 0 to 1, so
    that ``History``, ``CSVLogger`` and ``TensorBoard`` show them. The dataset given to ``fit`` must be one that
    ``autopipe.optimize`` returned; with ``rules=()`` it is the pipeline as it was written.

    >>> import autopipe, keras, tensorflow as tf
    >>> data = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(8)
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> seen = model.fit(autopipe.optimize(data), verbose=0, callbacks=[autopipe.callbacks.PipelineMonitor()])
    >>> 0 <= seen.history["input_stall"][0] <= 1
    True
    """
