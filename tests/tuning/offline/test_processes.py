"""Processes in which nothing has run yet."""

import os
import sys

import pytest

from autopipe.tuning.offline.processes import fresh_processes


@pytest.mark.skipif(sys.platform != "linux", reason="only there processes are forked")
def test_a_process_is_another_one_each_time_and_has_imported_tensorflow():
    context = fresh_processes()
    here, there = context.Pipe()
    told = []
    for _ in range(2):
        code = "import os, sys; pipe.send((os.getpid(), 'tensorflow' in sys.modules))"
        process = context.Process(target=exec, args=(code, {"pipe": there}))
        process.start()
        told.append(here.recv())
        process.join()
    assert len({os.getpid(), *(process for process, _ in told)}) == 3
    assert all(imported for _, imported in told)
