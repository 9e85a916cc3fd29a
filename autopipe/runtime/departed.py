"""What an iterator whose consumer is gone shows of full caches."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from autopipe.runtime.caches.full_pass import may_give_nothing_for_ever
from autopipe.runtime.caches.stores import Stores
from autopipe.runtime.one_more import ask_for_one_more
from autopipe.runtime.readings import Reading

__all__ = ["ask_once_more", "note_taken"]


def ask_once_more(stores: Stores, reading: Reading, asked: Future[None], like: Any, resource: Any) -> None:
    """Take one more element than a departed consumer did: it may show that none is missing from full caches.

    A consumer that got as many elements as there are need not ask for another, though only that would have shown it
    the error of a missing one. This request may fail too, or reach the end, which is then noted.
    """
    try:
        if _had_no_error(reading) and resource is not None and not may_give_nothing_for_ever(reading.tree):
            ask_for_one_more(resource, like, began=reading.began)
        note_taken(stores, reading)
    finally:
        asked.set_result(None)


def note_taken(stores: Stores, reading: Reading) -> None:
    """Note how many elements a departed consumer got: they may be as many as one pass has."""
    if reading.passes:
        # It may have filled caches before it was restored from another iterator.
        return
    if _had_no_error(reading):
        assert reading.requests is not None
        stores.note_taken(reading.tree, reading.memories, reading.files, reading.requests.given)
    stores.note_answer(reading.memories)


def _had_no_error(reading: Reading) -> bool:
    requests = reading.requests
    return requests is not None and not requests.in_vain and requests.given > 0
