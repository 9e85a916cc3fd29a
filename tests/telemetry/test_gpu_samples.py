"""The driver's samples, through the real bindings."""

from nvidia_driver import Run


def test_each_lasts_from_the_one_before_until_its_time(run: Run) -> None:
    script = """
import time
before, spans, after = time.perf_counter(), meter.spans(), time.perf_counter()
print(len(spans), {round(span.seconds, 6) for span in spans}, {span.utilization for span in spans})
print(all(one.ended == next.began for one, next in zip(spans, spans[1:])), before - 0.051 < spans[-1].ended <= after)
"""
    lasted, in_order = run(script, FAKE_UTILIZATION="37,0", FAKE_MINE="1,0", FAKE_PERIOD="50000")
    assert lasted == "69 {0.05} {0.37}"
    assert in_order == "True True"


def test_each_is_told_once(run: Run) -> None:
    script = """
import time
told = meter.spans()[-1:]
for _ in range(30):
    time.sleep(0.01)
    told += meter.spans()
gaps = [after.began - before.ended for before, after in zip(told, told[1:])]
print(len(told) >= 6, all(abs(gap) < 1e-3 for gap in gaps))
"""
    assert run(script, FAKE_MINE="1,0", FAKE_PERIOD="50000") == ["True True"]


def test_one_that_comes_late_lasts_a_second_at_the_most(run: Run) -> None:
    script = "print({round(span.seconds, 6) for span in meter.spans()})"
    assert run(script, FAKE_MINE="1,0", FAKE_PERIOD="3000000") == ["{1.0}"]


def test_two_gpus_in_use_give_theirs_in_the_order_of_time(run: Run) -> None:
    script = """
spans = meter.spans()
print(sorted({span.utilization for span in spans}), spans == sorted(spans, key=lambda span: span.ended))
"""
    assert run(script, FAKE_UTILIZATION="20,40", FAKE_MINE="1,1", FAKE_PERIOD="50000") == ["[0.2, 0.4] True"]


def test_a_gpu_that_never_works_is_left_out_once_another_does(run: Run) -> None:
    script = """
import time
idle = {span.utilization for span in meter.spans()}
os.environ["FAKE_UTILIZATION"] = "0,37"
time.sleep(0.2)
print(idle, {span.utilization for span in meter.spans()}, warned)
"""
    assert run(script, FAKE_UTILIZATION="0,0", FAKE_MINE="1,1", FAKE_PERIOD="50000") == ["{0.0} {0.37} []"]


def test_the_driver_is_not_asked_before_there_can_be_another(run: Run) -> None:
    script = """
import time
import pynvml
asked = []
ask = pynvml.nvmlDeviceGetSamples
pynvml.nvmlDeviceGetSamples = lambda *wanted: asked.append(wanted) or ask(*wanted)
end = time.perf_counter() + 0.5
while time.perf_counter() < end:
    meter.spans()
print(len(asked))
"""
    (asked,) = run(script, FAKE_MINE="1,0", FAKE_PERIOD="200000")
    assert 2 <= int(asked) <= 4


def test_when_the_clock_of_the_day_is_set_back_what_comes_is_told_all_the_same(run: Run) -> None:
    script = """
import time
meter.spans()
for gpu in meter._used:
    gpu.samples._stamp += 600_000_000
    gpu.samples._due = 0.0
before = meter.spans()
time.sleep(1.3)
told = meter.spans()
print(before, len(told) > 0, all(0 < span.seconds <= 1 for span in told))
"""
    assert run(script, FAKE_MINE="1,0", FAKE_PERIOD="50000") == ["[] True True"]


def test_a_driver_that_keeps_none_is_asked_for_what_it_tells_at_once(run: Run) -> None:
    script = """
import time
before, first, began = time.perf_counter(), meter.spans(), time.perf_counter()
time.sleep(0.05)
span, = meter.spans()
after = time.perf_counter()
print(first, span.utilization, before <= span.began <= began, began + 0.05 <= span.ended <= after, warned)
"""
    assert run(script, FAKE_UTILIZATION="37,0", FAKE_MINE="1,0") == ["[] 0.37 True True []"]


def test_a_gpu_without_utilization_is_left_out_of_the_samples(run: Run) -> None:
    script = "print({span.utilization for span in meter.spans()}, warned)"
    assert run(script, FAKE_UTILIZATION="-3,37", FAKE_PERIOD="50000") == ["{0.37} []"]


def test_a_fault_warns_once_and_tells_nothing_from_then_on(run: Run) -> None:
    script = """
import time
before = len(meter.spans())
os.environ["FAKE_UTILIZATION"] = "-15"
time.sleep(0.06)
print(before > 0, meter.spans(), meter.spans(), meter.read(), len(warned), "GpuIsLost" in warned[0])
"""
    assert run(script, FAKE_MINE="1,0", FAKE_PERIOD="50000") == ["True [] [] None 1 True"]
