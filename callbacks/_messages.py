"""What both callbacks warn of, once each."""

from __future__ import annotations

__all__ = ["no_elements", "outside_loop", "unseen", "unstepped"]


def unseen(name: str) -> str:
    """Return that a callback of that name sees no optimized dataset in a training."""
    return (
        f"{name} follows a dataset that autopipe.optimize() returned, but this training reads none. Under a "
        "distribution strategy it cannot be followed. Without one, train from it itself, or from what batch, filter, "
        "map, padded_batch, prefetch, repeat, skip and with_options make of it (repeat() without end, of files, only "
        "if assert_cardinality() says what they hold); in a loop of your own, make the iterator inside the callback's "
        "context."
    )


def no_elements(name: str) -> str:
    """Return that it saw one that gave no elements: it is empty, or not what was trained on."""
    return (
        f"{name} follows a dataset that autopipe.optimize() returned, but the one that this training began to read "
        "gave no elements. See whether its files are empty or its filters leave nothing, and whether it is what you "
        "train from."
    )


def unstepped(name: str) -> str:
    """Return that it was told of no step."""
    return (
        f"{name} must be told of each step of a training loop, but was told of none, so that it does not know what is "
        "trained on. Call its step() after each."
    )


def outside_loop(name: str) -> str:
    """Return that it was told of a step while it listened to nothing."""
    return (
        f"{name}.step() must be called in a training loop within the callback, but is called outside of it, so that "
        f"nothing is seen. Write `with {name}() as callback:` around the loop."
    )
