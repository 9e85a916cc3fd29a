"""The warnings of both callbacks, each given once."""

from __future__ import annotations

__all__ = ["no_elements", "outside_loop", "unseen", "unstepped"]


def unseen(name: str) -> str:
    """Return the warning of a callback that sees no optimized dataset in a training."""
    return (
        f"{name} follows a dataset that autopipe.optimize() returned, but this training reads none. Under a "
        "distribution strategy it cannot be followed. Without one, train from it itself, or from what batch, filter, "
        "map, padded_batch, prefetch, repeat, skip and with_options make of it (an endless repeat() over files only "
        "if assert_cardinality() states their number of elements); in a loop of your own, make the iterator inside the "
        "callback's context."
    )


def no_elements(name: str) -> str:
    """Return the warning of one whose dataset gave no elements: it is empty, or not what was trained on."""
    return (
        f"{name} follows a dataset that autopipe.optimize() returned, but the one that this training began to read "
        "gave no elements. Check whether its files are empty or its filters drop everything, and whether you train "
        "from it."
    )


def unstepped(name: str) -> str:
    """Return the warning of one whose ``step()`` was never called."""
    return (
        f"{name}.step() must be called after each step of a training loop, but was never called, so {name} does not "
        "know which dataset is trained on. Call it after each step."
    )


def outside_loop(name: str) -> str:
    """Return the warning of one whose ``step()`` was called outside of a training loop."""
    return (
        f"{name}.step() must be called within the callback's context, but is called outside of it, so that nothing "
        f"is measured. Write `with {name}() as callback:` around the loop."
    )
