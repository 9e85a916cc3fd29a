"""What ``autopipe doctor`` says of a machine."""

import json
import warnings

import pytest
import tensorflow as tf
from typer.testing import CliRunner, Result

from autopipe.cli.main import app
from autopipe.planning.memory.machine import Machine
from autopipe.planning.memory.pages import HugePages
from autopipe.telemetry import DeviceReading, GpuReading, TelemetryWarning


def autopipe(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, arguments)


class FakeMeter:
    """Reads one GPU, or warns."""

    reading: GpuReading | None = GpuReading((DeviceReading(0, "H200 [test]", 0.25, 8 * 2**30),))

    def read(self) -> GpuReading | None:
        if self.reading is None:
            warnings.warn("No driver here. Install one.", TelemetryWarning, stacklevel=2)
        return self.reading

    def close(self) -> None:
        pass


class TestDoctor:
    def test_json_tells_versions_and_what_may_be_used(self) -> None:
        report = json.loads(autopipe("doctor", "--json").stdout)
        assert all(report["versions"][name] for name in ("python", "tensorflow", "keras", "optuna", "autopipe"))
        assert 0 < report["machine"]["cores"] <= report["machine"]["host_cores"]
        assert 0 < report["machine"]["memory_bytes"] <= report["machine"]["host_memory_bytes"]

    def test_limits_below_the_hosts_are_marked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        here = Machine(cores=0.5, memory_bytes=2**30, available_bytes=2**29, host="pod")
        monkeypatch.setattr(Machine, "here", lambda: here)
        said = autopipe("doctor").stdout
        assert "0.5  of the host's" in said
        assert "limited by affinity or a cgroup quota" in said
        assert "1.0 GiB  of the host's" in said

    def test_no_limit_no_mark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        here = Machine(cores=4096, memory_bytes=2**50, available_bytes=2**50, host="big")
        monkeypatch.setattr(Machine, "here", lambda: here)
        assert "limited by" not in autopipe("doctor").stdout

    def test_what_would_have_memory_come_in_large_pages_is_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for pages, advised in (
            (HugePages("madvise", asked=False, can_ask=True), True),
            (HugePages("madvise", asked=True, can_ask=True), False),
            (None, False),
        ):
            monkeypatch.setattr(HugePages, "here", lambda found=pages: found)
            said = autopipe("doctor").stdout
            assert ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1" in said) is advised
            assert ("memory, at a time" in said) is (pages is not None)

    @pytest.mark.parametrize(
        ("allocator", "variable", "said"),
        [
            ("tensorflow", None, "by TensorFlow's allocator"),
            ("tensorflow", "MALLOC_TOP_PAD_", "by TensorFlow's allocator"),
            ("glibc", None, "optimize() makes it keep up to 48 MiB"),
            ("glibc", "MALLOC_TOP_PAD_", "kept as MALLOC_TOP_PAD_ says"),
            ("unknown", None, "up to the C library"),
        ],
    )
    def test_who_keeps_the_memory_of_a_batch_is_a_line(
        self, monkeypatch: pytest.MonkeyPatch, allocator: str, variable: str | None, said: str
    ) -> None:
        monkeypatch.setattr("autopipe.planning.memory.freed.allocator", lambda: allocator)
        monkeypatch.setattr("autopipe.planning.memory.freed.who_says", lambda: variable)
        shown = " ".join(autopipe("doctor").stdout.split())
        assert said in shown
        report = json.loads(autopipe("doctor", "--json").stdout)["machine"]
        assert (report["allocator"], report["freed_memory_by"]) == (allocator, variable)

    def test_why_there_is_no_gpu_is_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeMeter, "reading", None)
        monkeypatch.setattr("autopipe.telemetry.GpuMeter", FakeMeter)
        result = autopipe("doctor")
        assert result.exit_code == 0
        assert "No driver here. Install one." in result.stdout
        assert not result.stderr

    def test_gpus_that_tensorflow_does_not_use_are_pointed_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("autopipe.telemetry.GpuMeter", FakeMeter)
        monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: [])
        said = autopipe("doctor").stdout
        assert "0: H200 [test], 8 GiB, 25% busy" in said
        assert 'pip install "tensorflow[and-cuda]"' in said

    def test_a_gpu_whose_memory_the_driver_does_not_tell_is_shown_without(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("autopipe.telemetry.GpuMeter", FakeMeter)
        monkeypatch.setattr(FakeMeter, "reading", GpuReading((DeviceReading(0, "GB10", 0.25, None),)))
        assert "0: GB10, memory unknown, 25% busy" in autopipe("doctor").stdout

    def test_tensorflow_needs_no_gpu_where_keras_trains_with_another_backend(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("autopipe.telemetry.GpuMeter", FakeMeter)
        monkeypatch.setattr("keras.config.backend", lambda: "jax")
        said = autopipe("doctor").stdout
        assert "none: Keras trains with jax" in said
        assert "pip install" not in said

    def test_versions_are_those_of_what_is_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("autopipe.cli.doctor.release", lambda: None)
        versions = json.loads(autopipe("doctor", "--json").stdout)["versions"]
        assert versions["tensorflow"] == tf.__version__
        assert versions["autopipe"] is None
        assert "not installed" in autopipe("doctor").stdout
