"""The exceptions autopipe raises.

::

    AutopipeError
    ├── DatasetError     what was given is not a dataset autopipe can read, or it cannot be run
    ├── ArgumentError    an argument of a public function breaks its law
    ├── KnobError        a knob that the pipeline does not have, or a value outside its range
    ├── PlanError        a plan that cannot be read, or that belongs to another pipeline
    ├── RewriteError     a rule produced a pipeline of another type; the rule is named
    │   └── VerificationError    run, the rewritten pipeline does not yield what was promised; the rule is named
    ├── SearchError      no trial of a search came to an end
    ├── StorageError     the storage of a study cannot be reached any more
    └── TargetError      ``file.py:function`` names nothing that can be run

Each message states the law, then what was received, then the remedy.
"""

__all__ = [
    "ArgumentError",
    "AutopipeError",
    "DatasetError",
    "KnobError",
    "PlanError",
    "RewriteError",
    "SearchError",
    "StorageError",
    "TargetError",
    "VerificationError",
]


class AutopipeError(Exception):
    """Anything autopipe raises on purpose."""

    # Under a tf.function, AutoGraph hands such an error on as it is.
    ag_pass_through = True


class DatasetError(AutopipeError, ValueError):
    """What was given is not a ``tf.data.Dataset``, or cannot be run as one."""


class ArgumentError(AutopipeError, ValueError):
    """An argument of a public function breaks its law."""


class KnobError(AutopipeError, KeyError):
    """A knob that the pipeline does not have, or a value outside its range."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class PlanError(AutopipeError, ValueError):
    """A plan that cannot be read, or that belongs to another pipeline."""


class RewriteError(AutopipeError, RuntimeError):
    """A rule produced a pipeline of another type."""


class SearchError(AutopipeError, RuntimeError):
    """No trial of a search came to an end."""


class StorageError(AutopipeError, OSError):
    """The storage of a study cannot be reached any more, or another process keeps it locked."""


class TargetError(AutopipeError, LookupError):
    """A ``file.py:function`` or ``module:function`` that names nothing that can be run."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class VerificationError(RewriteError):
    """A rewritten pipeline was run and does not yield what was promised."""
