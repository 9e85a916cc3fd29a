"""autopipe: makes the input pipeline of Keras training stop being the bottleneck, on stock TensorFlow.

``optimize(dataset)`` rewrites a ``tf.data`` pipeline, ``profile(dataset)`` shows what each stage of it costs,
``callbacks.PipelineTuner()`` tunes it inside ``fit``, and ``autopipe tune`` does so from the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autopipe import errors
from autopipe.errors import AutopipeError

if TYPE_CHECKING:
    from autopipe import callbacks, search_spaces
    from autopipe.api import explain, optimize
    from autopipe.functions.declared import stateless
    from autopipe.planning.costs.consumer import ModelSteps
    from autopipe.planning.costs.profiling import profile
    from autopipe.planning.plans.plan import Plan
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = [
    "AutopipeError",
    "ModelSteps",
    "OptimizedDataset",
    "Plan",
    "callbacks",
    "errors",
    "explain",
    "optimize",
    "profile",
    "search_spaces",
    "stateless",
]

# TensorFlow takes seconds to import, so what needs it is imported when it is first used.
_LAZY = {
    "ModelSteps": "autopipe.planning.costs.consumer",
    "OptimizedDataset": "autopipe.runtime.dataset",
    "Plan": "autopipe.planning.plans.plan",
    "explain": "autopipe.api",
    "optimize": "autopipe.api",
    "profile": "autopipe.planning.costs.profiling",
    "stateless": "autopipe.functions.declared",
}


def __getattr__(name: str) -> Any:
    if name in ("callbacks", "search_spaces"):
        return import_module(f"autopipe.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'autopipe' has no attribute {name!r}")
