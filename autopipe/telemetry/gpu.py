"""The GPUs this process uses, read through the NVIDIA driver (NVML)."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from autopipe.telemetry._base import DeviceReading, GpuReading, Span, TelemetryWarning
from autopipe.telemetry.gpu_samples import GpuSamples

__all__ = ["GpuMeter"]

Told = TypeVar("Told")

# TensorFlow takes its GPUs only when it needs them: ask again which are in use, but not at every reading.
_LOOK_AGAIN_SECONDS = 5.0

_REMEDIES = {
    "NVMLError_LibraryNotFound": (
        "Install the NVIDIA driver, or go on without it: the input stall is measured on any machine."
    ),
    "NVMLError_DriverNotLoaded": "Load the driver's kernel module (`modprobe nvidia`), then train again.",
    "NVMLError_NoPermission": "Let this process read /dev/nvidiactl and /dev/nvidia0, /dev/nvidia1, ...",
    "NVMLError_NotSupported": (
        "For some GPUs, such as one divided by MIG, the driver reports no utilization: use a whole GPU, or go by the "
        "input stall."
    ),
}
_OTHER_REMEDY = "Check whether `nvidia-smi` still answers; the input stall is measured all the same."

_warned: set[str] = set()
_warned_lock = threading.Lock()


class GpuMeter:
    """Utilization and memory of the GPUs this process uses.

    Those are the GPUs on which the driver lists this process. If there are none (no GPU touched yet, or a container
    with its own process ids), they are all that ``CUDA_VISIBLE_DEVICES`` leaves visible.

    A GPU whose utilization the driver does not report is left out. When nothing can be read (no driver, no
    permission, only MIG slices, a driver that fails during the run) the meter warns with `TelemetryWarning`, once per
    cause and process, and reports nothing from then on. If no GPU is visible, it reports
    nothing, without a warning.

    >>> from autopipe.telemetry import GpuMeter
    >>> meter = GpuMeter()
    >>> meter.close()
    >>> meter.read() is None
    True
    """

    def __init__(self) -> None:
        # Garbage collection may close an unreferenced meter in the thread that holds the lock.
        self._lock = threading.RLock()
        self._nvml: Any = None  # the bindings, from nvmlInit to nvmlShutdown
        self._over = False
        self._gpus: tuple[_Gpu, ...] = ()
        self._used: tuple[_Gpu, ...] = ()
        self._worked: set[str] = set()
        self._look_again = 0.0

    def read(self) -> GpuReading | None:
        """Return the current figures, or None if there are none."""
        devices = self._of_each(_figures)
        return GpuReading(tuple(devices)) if devices else None

    def spans(self) -> list[Span]:
        """Return the driver's samples of all those GPUs since the last call; the latest last.

        The first call returns all it remembers. TensorFlow occupies every GPU it sees, and mostly works on one: once a
        GPU has worked, those that never did are left out.
        """
        of_each = self._of_each(lambda nvml, gpu: (gpu.uuid, gpu.samples.new(nvml)))
        self._worked.update(uuid for uuid, spans in of_each if any(span.utilization > 0 for span in spans))
        told = [spans for uuid, spans in of_each if uuid in self._worked or not self._worked]
        return sorted(chain.from_iterable(told), key=lambda span: span.ended)

    def close(self) -> None:
        """Release the driver; the meter reads None from then on."""
        with self._lock:
            self._end()

    def _of_each(self, tell: "Callable[[Any, _Gpu], Told]") -> list[Told]:
        """Return the result of ``tell`` for each GPU in use; nothing once the driver has failed."""
        import pynvml as nvml

        with self._lock:
            if self._over:
                return []
            try:
                if self._nvml is None:
                    nvml.nvmlInit()
                    self._nvml = nvml
                    self._gpus = _permitted(nvml)
                return _supported(nvml, self._in_use(nvml), tell)
            except nvml.NVMLError as error:
                if self._over:
                    return []
                self._end()
                cause = error
        _warn_once(cause)
        return []

    def _in_use(self, nvml: Any) -> "tuple[_Gpu, ...]":
        now = time.monotonic()
        if now >= self._look_again:
            pid = os.getpid()
            mine = tuple(gpu for gpu in self._gpus if pid in _pids(nvml, gpu))
            self._used = mine or _visible(nvml, self._gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
            self._look_again = now + _LOOK_AGAIN_SECONDS
        return self._used

    def _end(self) -> None:
        self._over = True
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


@dataclass(frozen=True, slots=True)
class _Gpu:
    index: int
    uuid: str
    name: str
    handle: Any
    samples: GpuSamples


def _permitted(nvml: Any) -> tuple[_Gpu, ...]:
    gpus = []
    refusal = None
    for index in range(nvml.nvmlDeviceGetCount()):
        # The count includes GPUs that a cluster's scheduler has given to others, and those that are broken.
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except (nvml.NVMLError_NoPermission, *_broken(nvml)) as error:
            refusal = error
            continue
        gpus.append(_Gpu(index, uuid, name, handle, GpuSamples(handle)))
    if refusal is not None and not gpus:
        raise refusal
    return tuple(gpus)


def _broken(nvml: Any) -> tuple[type[Exception], ...]:
    """Return the errors of a GPU that does not answer any more, while others may."""
    return nvml.NVMLError_GpuIsLost, nvml.NVMLError_Unknown


def _pids(nvml: Any, gpu: _Gpu) -> set[int]:
    # A driver may refuse this list though it reports everything else; a broken GPU shows when it is read.
    silence = (
        *_broken(nvml),
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_NoPermission,
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_InsufficientSize,
    )
    pids: set[int] = set()
    # Called by version: which errors the plain names raise with an old driver depends on the bindings.
    for listing in (
        nvml.nvmlDeviceGetComputeRunningProcesses_v3,
        nvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    ):
        with suppress(*silence):
            pids.update(process.pid for process in listing(gpu.handle))
    return pids


def _visible(nvml: Any, gpus: tuple[_Gpu, ...], listed: str | None) -> tuple[_Gpu, ...]:
    if listed is None:
        return gpus
    visible: list[_Gpu] = []
    for entry in listed.replace(" ", "").split(","):
        if entry.startswith("MIG-"):
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        # CUDA numbers the GPUs it may use from 0, and accepts the beginning of a UUID.
        named = [
            gpu
            for place, gpu in enumerate(gpus)
            if entry == str(place) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))
        ]
        if not named:
            break  # as CUDA does: an entry that names no GPU ends the list
        visible.append(named[0])
    return tuple(visible)


def _supported(nvml: Any, gpus: tuple[_Gpu, ...], tell: Callable[[Any, _Gpu], Told]) -> list[Told]:
    """Return the result of ``tell`` for each GPU that supports it.

    Raises:
        NVMLError_NotSupported: if no GPU does.
    """
    told = []
    refusal = None
    for gpu in gpus:
        try:
            told.append(tell(nvml, gpu))
        except nvml.NVMLError_NotSupported as error:
            refusal = error
    if refusal is not None and not told:
        raise refusal
    return told


def _figures(nvml: Any, gpu: _Gpu) -> DeviceReading:
    percent = nvml.nvmlDeviceGetUtilizationRates(gpu.handle).gpu
    memory_bytes = None
    with suppress(nvml.NVMLError_NotSupported):
        memory_bytes = nvml.nvmlDeviceGetMemoryInfo(gpu.handle).total
    return DeviceReading(gpu.index, gpu.name, percent / 100, memory_bytes)


def _warn_once(error: Exception) -> None:
    cause = type(error).__name__
    with _warned_lock:
        if cause in _warned:
            return
        _warned.add(cause)
    warnings.warn(
        f"GPU utilization is read from the NVIDIA driver, but it answered {cause} ({error}); "
        f"this process gets no GPU figures. {_REMEDIES.get(cause, _OTHER_REMEDY)}",
        TelemetryWarning,
        stacklevel=4,
    )
