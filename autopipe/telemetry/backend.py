"""The device that Keras computes on."""

import tensorflow as tf

__all__ = ["computes_on_gpu"]


def computes_on_gpu() -> bool:
    """Return whether the backend of Keras has a GPU; ``True`` for an unknown backend.

    A machine with a GPU may run a TensorFlow built without GPU support; the GPU's utilization is then due to others.

    >>> computes_on_gpu() in (True, False)
    True
    """
    import keras

    match keras.backend.backend():
        case "tensorflow":
            return bool(tf.config.get_visible_devices("GPU"))
        case "jax":
            import jax

            return bool(jax.default_backend() == "gpu")
        case "torch":
            import torch

            return bool(torch.cuda.is_available())
    return True
