"""Keras callbacks: one callback, one file."""

from autopipe.callbacks.pipeline_monitor import PipelineMonitor
from autopipe.callbacks.pipeline_tuner import PipelineTuner

__all__ = ["PipelineMonitor", "PipelineTuner"]
