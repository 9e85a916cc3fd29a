"""The real bindings, in a process of their own, against a driver library of the tests' own."""

from pathlib import Path

import pytest
from nvidia_driver import LIBRARY, Run


def test_utilization_is_a_share_and_memory_is_in_bytes(run: Run) -> None:
    script = "(gpu,) = meter.read().devices; print(gpu.utilization, gpu.memory_total_bytes, gpu.name)"
    assert run(script, FAKE_UTILIZATION="37,0", FAKE_MINE="1,0") == [f"0.37 {2**33} Fake 0"]


def test_a_gpu_that_others_use_is_left_out(run: Run) -> None:
    script = "r = meter.read(); print(r.utilization, [d.index for d in r.devices], warned)"
    assert run(script, FAKE_UTILIZATION="99,37", FAKE_MINE="0,1") == ["0.37 [1] []"]


def test_two_gpus_in_use_give_their_mean(run: Run) -> None:
    script = "print(meter.read().utilization)"
    assert run(script, FAKE_UTILIZATION="20,40", FAKE_MINE="1,1") == [f"{(0.2 + 0.4) / 2}"]


@pytest.mark.parametrize(
    ("visible", "read"),
    [
        ("1", "[1]"),
        ("1,0", "[1, 0]"),
        ("GPU-1", "[1]"),
        ("GPU-00000000-0000-0000-0000-000000000000", "[0]"),
        ("0,-1,1", "[0]"),
    ],
)
def test_a_process_in_no_list_reads_what_cuda_visible_devices_names(run: Run, visible: str, read: str) -> None:
    script = "print([d.index for d in meter.read().devices])"
    assert run(script, CUDA_VISIBLE_DEVICES=visible) == [read]


def test_a_gpu_that_the_process_begins_to_use_later_is_noticed(run: Run) -> None:
    script = """
import autopipe.telemetry.gpu
autopipe.telemetry.gpu._LOOK_AGAIN_SECONDS = 0
before = meter.read().utilization
os.environ["FAKE_MINE"] = "0,1"
print(before, meter.read().utilization)
"""
    assert run(script, FAKE_UTILIZATION="0,37", CUDA_VISIBLE_DEVICES="0") == ["0.0 0.37"]


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_no_visible_gpu_reads_none_and_is_no_fault(run: Run, hidden: str) -> None:
    assert run("print(meter.read(), warned)", CUDA_VISIBLE_DEVICES=hidden) == ["None []"]


@pytest.mark.parametrize("refusal", ["3", "4", "13"])
def test_a_driver_that_does_not_list_processes_gives_all_visible_gpus(run: Run, refusal: str) -> None:
    script = "print([d.index for d in meter.read().devices], warned)"
    assert run(script, FAKE_LISTING=f"{refusal},{refusal}") == ["[0, 1] []"]


def test_a_gpu_given_to_others_by_the_scheduler_is_not_counted(run: Run) -> None:
    script = "print([d.index for d in meter.read().devices], warned)"
    assert run(script, FAKE_HANDLE="4,0", CUDA_VISIBLE_DEVICES="0") == ["[1] []"]


@pytest.mark.parametrize("fault", ["15", "999"], ids=["lost", "unknown"])
@pytest.mark.parametrize("setting", ["FAKE_HANDLE", "FAKE_LISTING"])
def test_a_broken_gpu_that_this_process_does_not_use_takes_nothing_from_the_others(
    run: Run, setting: str, fault: str
) -> None:
    script = "print([d.index for d in meter.read().devices], warned)"
    assert run(script, FAKE_MINE="0,1", **{setting: f"{fault},0"}) == ["[1] []"]


def test_a_gpu_that_shares_the_memory_of_the_machine_and_does_not_tell_it_is_read(run: Run) -> None:
    script = "print([(d.utilization, d.memory_total_bytes) for d in meter.read().devices], warned)"
    found = run(script, FAKE_UTILIZATION="37,20", FAKE_MEMORY="3,0")
    assert found == [f"[(0.37, None), (0.2, {2**34})] []"]


def test_a_gpu_without_utilization_is_left_out(run: Run) -> None:
    script = "r = meter.read(); print(r.utilization, [d.index for d in r.devices], warned)"
    assert run(script, FAKE_UTILIZATION="-3,37") == ["0.37 [1] []"]


@pytest.mark.parametrize(
    ("fault", "cause", "remedy"),
    [
        ({"FAKE_INIT": "9"}, "NVMLError_DriverNotLoaded", "modprobe nvidia"),
        ({"FAKE_INIT": "4"}, "NVMLError_NoPermission", "/dev/nvidiactl"),
        ({"FAKE_HANDLE": "4,4"}, "NVMLError_NoPermission", "/dev/nvidiactl"),
        ({"FAKE_HANDLE": "15,15"}, "NVMLError_GpuIsLost", "nvidia-smi"),
        ({"FAKE_UTILIZATION": "-4,-4"}, "NVMLError_NoPermission", "/dev/nvidiactl"),
        ({"FAKE_UTILIZATION": "-3,-3"}, "NVMLError_NotSupported", "MIG"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "NVMLError_NotSupported", "MIG"),
        ({"FAKE_UTILIZATION": "-15,0"}, "NVMLError_GpuIsLost", "nvidia-smi"),
    ],
)
def test_a_fault_warns_once_in_a_process_and_reads_none(
    run: Run, fault: dict[str, str], cause: str, remedy: str
) -> None:
    script = "print([meter.read(), meter.read(), GpuMeter().read(), len(warned)]); print(warned[0])"
    readings, warning = run(script, **fault)
    assert readings == "[None, None, None, 1]"
    assert warning.startswith("TelemetryWarning: GPU utilization is read from the NVIDIA driver, but it answered")
    assert cause in warning
    assert remedy in warning


def test_without_a_driver_it_warns_once_and_reads_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / LIBRARY).touch()  # cannot be loaded, and hides the driver that this machine may have
    script = "print([meter.read(), GpuMeter().read(), len(warned)]); print(warned[0])"
    readings, warning = run(script, driver=tmp_path)
    assert readings == "[None, None, 1]"
    assert "NVMLError_LibraryNotFound" in warning
    assert "Install the NVIDIA driver" in warning


@pytest.mark.parametrize("error", ["-15", "-1", "-999"])
def test_a_driver_gone_in_mid_run_reads_none_from_then_on(run: Run, error: str) -> None:
    script = f"""
before = meter.read().utilization
os.environ["FAKE_UTILIZATION"] = "{error}"
gone = meter.read()
os.environ["FAKE_UTILIZATION"] = "50"
print(before, gone, meter.read(), len(warned))
"""
    assert run(script, FAKE_UTILIZATION="37", FAKE_MINE="1,0") == ["0.37 None None 1"]


def test_another_cause_warns_again(run: Run) -> None:
    script = """
meter.read()
os.environ["FAKE_INIT"] = "4"
GpuMeter().read()
print(len(warned))
"""
    assert run(script, FAKE_INIT="9") == ["2"]


def test_warnings_as_errors_reach_the_caller_and_leave_the_meter_readable(run: Run) -> None:
    script = """
warnings.simplefilter("error")
try:
    Sampler(meter).start()
except UserWarning as raised:
    print(type(raised).__name__, meter.read())
"""
    assert run(script, FAKE_INIT="9") == ["TelemetryWarning None"]


def test_closing_one_meter_leaves_the_others_reading(run: Run) -> None:
    script = """
other = GpuMeter()
print(other.read().utilization, meter.read().utilization)
other.close()
other.close()
print(other.read(), meter.read().utilization)
"""
    assert run(script, FAKE_UTILIZATION="37,37") == ["0.37 0.37", "None 0.37"]


def test_a_sampled_gpu_that_is_lost_keeps_the_mean_of_what_was_seen(run: Run) -> None:
    script = """
import time
with Sampler(meter, interval=0.005) as sampler:
    start = time.perf_counter()
    while sampler.mean((start, time.perf_counter())) is None:
        time.sleep(0.005)
    os.environ["FAKE_UTILIZATION"] = "-15,-15"
    while not warned:
        time.sleep(0.005)
    lost = time.perf_counter()
    time.sleep(0.05)
    print(round(sampler.mean((start, lost)), 6), sampler.mean((lost + 0.04, time.perf_counter())))
"""
    assert run(script, FAKE_UTILIZATION="37,37") == ["0.37 None"]


def test_importing_telemetry_loads_neither_tensorflow_nor_the_driver(run: Run) -> None:
    assert run("import sys; print({'tensorflow', 'pynvml'} & set(sys.modules))") == ["set()"]
