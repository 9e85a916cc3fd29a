"""How each kind of node becomes a dataset again; :func:`build_stage` knows those that are registered here."""

# Importing these modules registers their builders.
from autopipe.pipeline.builders import _files as _files
from autopipe.pipeline.builders import _joins as _joins
from autopipe.pipeline.builders import _stages as _stages
from autopipe.pipeline.builders._base import arguments_of, build_stage, from_variant

__all__ = ["arguments_of", "build_stage", "from_variant"]
