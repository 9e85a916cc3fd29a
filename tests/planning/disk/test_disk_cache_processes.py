"""Processes that share a folder of elements, or are really killed: one is forked for each, in which nothing has run."""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest
from elements_on_disk import attempts, cached, expected, failing, first_numbers, numbers
from programs import run_program

from autopipe.planning.disk.disk_cache import DiskCache

ELEMENTS = 10_000


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    return json.loads(run_program(Path(__file__), folder))


def test_a_process_killed_at_any_moment_leaves_nothing_that_is_read(story):
    kills = story["kills"]
    assert len(kills) == 8
    for kill in kills:
        whole = "data.index" in kill["found"] and "data_0.lockfile" not in kill["found"]
        assert kill["read"] == ("right from the cache" if whole else "right")
    # The kills really came at other moments: while it wrote, and in the midst of merging.
    states = {tuple(kill["found"]) for kill in kills}
    assert len(states) >= 4
    assert any("data.index" in state and "data_0.lockfile" in state for state in states)


def test_what_killed_processes_left_is_removed(story):
    assert all(kill["left"] == 1 for kill in story["kills"])


def test_two_processes_at_once_do_not_disturb_each_other(story):
    assert story["together"] == ["right", "right"]
    assert story["after both"] == "right from the cache"


def in_fork(action):
    """Run in a process of its own; return its id and where its answer can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    try:
        action(lambda answer: os.write(writing, f"{answer}\n".encode()))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def finish(child, answers):
    os.waitpid(child, 0)
    with os.fdopen(answers) as stream:
        return stream.read().split("\n")[0]


def write_and_say_so(folder):
    def action(say):
        tree = numbers(ELEMENTS)
        name = DiskCache(folder).filename(tree)
        say(name)
        say("right" if first_numbers(cached(tree, name)) == expected(ELEMENTS) else "wrong")

    return action


def read_and_say_so(folder):
    def action(say):
        tree = numbers(ELEMENTS)
        disk = DiskCache(folder)
        name = disk.filename(tree)
        whole = Path(f"{name}.index").exists()
        right = first_numbers(cached(failing() if whole else tree, name)) == expected(ELEMENTS)
        right = right and disk.again(name) == name
        say(("right from the cache" if whole else "right") if right else "wrong")

    return action


def kill_when(folder, seen):
    """Kill a process that writes as soon as ``seen``, of the seconds since it began and its files; tell them."""
    child, answers = in_fork(write_and_say_so(folder))
    attempt = Path(os.read(answers, 4096).decode().split("\n")[0]).parent
    begun = None
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        files = os.listdir(attempt)
        if begun is None and files:
            begun = time.perf_counter()
        if begun is not None and seen(time.perf_counter() - begun, files):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.0005)
    os.close(answers)
    return sorted(name.split(".temp")[0] for name in os.listdir(attempt))


def appears(part, locked=True):
    def seen(seconds, files):
        return any(part in name for name in files) and ("data_0.lockfile" in files) == locked

    return seen


def tell_story(folder):
    moments = [
        *[lambda seconds, files, at=at: seconds >= at for at in (0, 0.05, 0.12)],
        appears("data_0.index.tempstate"),
        appears("data_0.index"),
        appears("data.data"),
        appears("data.index"),
        appears("data.index", locked=False),
    ]
    kills = []
    for number, moment in enumerate(moments):
        # Each in a folder of its own, so that every process has to write.
        place = folder / f"kill{number}"
        found = kill_when(place, moment)
        read = finish(*in_fork(read_and_say_so(place)))
        kills.append({"found": found, "read": read, "left": len(attempts(place))})
    together = [in_fork(read_and_say_so(folder / "both")) for _ in range(2)]
    return {
        "kills": kills,
        "together": [finish(*each) for each in together],
        "after both": finish(*in_fork(read_and_say_so(folder / "both"))),
    }


if __name__ == "__main__":
    print(json.dumps(tell_story(Path(sys.argv[1]))))
