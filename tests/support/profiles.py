"""Profiles with figures that a test chooses, so that what is made of them can be told exactly."""

from autopipe.pipeline import ir, trees
from autopipe.pipeline.text import stage
from autopipe.planning.costs.profile import Profile, StageProfile, Stretch
from autopipe.planning.memory.machine import Machine

MANY_BYTES = 2**40


def cost_of(node, seconds=0.0, *, share=0.0, calls=None, ahead=False, each_bytes=8.0):
    """Return what one stage costs; ``seconds`` for each element of the pipeline."""
    return StageProfile(
        node=node,
        place=node,
        stage=stage(node),
        line=node.line,
        elements=100,
        seconds_per_element=seconds,
        share=share,
        bytes_in=each_bytes,
        bytes_per_element=each_bytes,
        bytes_error=0.0,
        buffered_bytes=0,
        parallelism=calls,
        ahead=ahead or calls is not None,
    )


def profile_of(tree, costs, *, rate=100.0, cores_busy=1.0, cores=4.0):
    """Return the profile of a pipeline; ``costs`` has for kinds of stages what :func:`cost_of` takes."""
    nodes = [node for node in reversed(list(trees.walk(tree))) if not isinstance(node, ir.Options)]
    stages = tuple(cost_of(node, **costs.get(type(node), {})) for node in nodes)
    stretch = Stretch(elements=round(rate), seconds=1.0, cpu_seconds=cores_busy)
    machine = Machine(cores=cores, memory_bytes=MANY_BYTES, available_bytes=MANY_BYTES, host="here")
    return Profile(stages, stretch, epochs=1, filling=False, process_bytes=1, machine=machine)
