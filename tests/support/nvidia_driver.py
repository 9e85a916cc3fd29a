"""A driver library of the tests' own, for the real bindings in a process of their own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hiding import HIDDEN

LIBRARY = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).with_name("fake_nvml.c")
_PREAMBLE = """
import os, warnings
from autopipe.telemetry import GpuMeter, Sampler
warned = []
warnings.simplefilter("always")
warnings.showwarning = lambda said, kind, *_: warned.append(f"{kind.__name__}: {said}")
meter = GpuMeter()
"""

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library, whose answers `fake_nvml.c` lists."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail("The GPU tests compile a small driver library, but there is no C compiler. Install gcc.")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / LIBRARY, _SOURCE], check=True)
    return folder


def environment_with(driver: Path) -> dict[str, str]:
    """Return the environment of a process that finds the driver in a folder, and that may use all GPUs."""
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return env | {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": os.pathsep.join([HIDDEN, *sys.path])}


@pytest.fixture
def run(fake_driver: Path) -> Run:
    """Run a script that is given a meter; return the lines it prints."""

    def run(script: str, *, driver: Path = fake_driver, **settings: str) -> list[str]:
        env = environment_with(driver) | settings
        done = subprocess.run(
            [sys.executable, "-c", _PREAMBLE + script], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
