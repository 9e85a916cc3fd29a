from __future__ import annotations

import json
import platform
import warnings
from dataclasses import asdict
from importlib import import_module
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from autopipe.cli._options import AsJson
from autopipe.cli._output import draw
from autopipe.environment import release
from autopipe.figures import bytes_text
from autopipe.planning.memory.pages import ASKING_TEXT, HugePages
from autopipe.quiet import load_tensorflow

__all__ = ["doctor"]

_PACKAGES = ("tensorflow", "keras", "optuna", "numpy")
_GIBIBYTE = 2**30


def doctor(as_json: AsJson = False) -> None:
    """Show what autopipe finds on this machine: versions, GPUs, and the cores and memory it may really use."""
    load_tensorflow()
    report = {"versions": _versions(), "gpu": _gpu(), "machine": _machine()}
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        draw(_table(report))


def _versions() -> dict[str, str | None]:
    versions = {package: import_module(package).__version__ for package in _PACKAGES}
    return {"python": platform.python_version(), "autopipe": release(), **versions}


def _gpu() -> dict[str, Any]:
    """Return the GPUs that the driver reports and those that TensorFlow uses, and why one of them has none."""
    import keras
    import tensorflow as tf

    from autopipe.telemetry import GpuMeter

    meter = GpuMeter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = meter.read()
    meter.close()
    driver = [
        {"index": gpu.index, "name": gpu.name, "utilization": gpu.utilization, "memory_bytes": gpu.memory_total_bytes}
        for gpu in (reading.devices if reading else ())
    ]
    in_tensorflow = [device.name for device in tf.config.list_physical_devices("GPU")]
    notes = [str(warning.message) for warning in caught]
    if not driver and not notes:
        notes.append("The driver reports no GPU that this process may use; CUDA_VISIBLE_DEVICES may hide them.")
    backend = keras.config.backend()
    if driver and not in_tensorflow and backend == "tensorflow":
        notes.append('TensorFlow uses none of these GPUs. Run: pip install "tensorflow[and-cuda]"')
    return {"driver": driver, "tensorflow": in_tensorflow, "keras_backend": backend, "notes": notes}


def _machine() -> dict[str, Any]:
    import psutil

    from autopipe.planning.memory.freed import allocator, who_says
    from autopipe.planning.memory.machine import Machine

    here, pages = Machine.here(), HugePages.here()
    memory = psutil.virtual_memory()
    return {
        "host": here.host,
        "cores": here.cores,
        "host_cores": psutil.cpu_count() or here.cores,
        "memory_bytes": here.memory_bytes,
        "host_memory_bytes": memory.total,
        "available_bytes": here.available_bytes,
        "host_available_bytes": memory.available,
        "huge_pages": None if pages is None else asdict(pages),
        "allocator": allocator(),
        "freed_memory_by": who_says(),
    }


def _table(report: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, found in report["versions"].items():
        table.add_row(name, Text(found) if found else Text("not installed: run from its folder", style="yellow"))
    table.add_row()
    for title, lines in (("GPU, driver", _driver_lines(report["gpu"])), ("GPU, TensorFlow", _tensorflow(report))):
        for number, line in enumerate(lines):
            table.add_row("" if number else title, line)
    table.add_row()
    machine = report["machine"]
    table.add_row("cores", _of_host(machine["cores"], machine["host_cores"], "{:g}", "affinity or a cgroup quota"))
    for title, mine, hosts in (
        ("memory", "memory_bytes", "host_memory_bytes"),
        ("memory, free", "available_bytes", "host_available_bytes"),
    ):
        sizes = machine[mine] / _GIBIBYTE, machine[hosts] / _GIBIBYTE
        table.add_row(title, _of_host(*sizes, "{:.1f} GiB", "a cgroup"))
    if machine["huge_pages"] is not None:
        table.add_row("memory, at a time", _pages(HugePages(**machine["huge_pages"])))
    table.add_row("memory, freed", _freed(machine["allocator"], machine["freed_memory_by"]))
    return table


def _driver_lines(gpu: dict[str, Any]) -> list[Text]:
    notes = [Text(note, style="yellow") for note in gpu["notes"]]
    return [*map(_gpu_line, gpu["driver"]), *notes]


def _gpu_line(gpu: dict[str, Any]) -> Text:
    memory = "memory unknown" if gpu["memory_bytes"] is None else f"{gpu['memory_bytes'] / _GIBIBYTE:.0f} GiB"
    return Text(f"{gpu['index']}: {gpu['name']}, {memory}, {gpu['utilization']:.0%} busy")


def _tensorflow(report: dict[str, Any]) -> list[Text]:
    backend = report["gpu"]["keras_backend"]
    where = "training runs on the CPU" if backend == "tensorflow" else f"Keras trains with {backend}"
    return [Text(name) for name in report["gpu"]["tensorflow"]] or [Text(f"none: {where}")]


def _pages(pages: HugePages) -> Text:
    """Return how much memory comes at a time, and how more would where only asking for it is missing."""
    text = Text(f"{'2 MiB' if pages.given else '4 KiB'} (transparent_hugepage={pages.setting})")
    if pages.would_be_given:
        better = f"; 2 MiB, in which caches may fill faster, if the script is started with {ASKING_TEXT}"
        text.append(better, style="yellow")
    return text


def _freed(allocator: str, variable: str | None) -> Text:
    """Return who keeps what a batch leaves for the next one."""
    from autopipe.planning.memory.freed import KEPT_BYTES

    if allocator == "tensorflow":
        return Text("kept for the next batch by TensorFlow's allocator")
    if variable is not None:
        return Text(f"kept as {variable} says")
    if allocator == "glibc":
        kept = f"optimize() makes it keep up to {bytes_text(KEPT_BYTES)} of each heap"
        return Text(f"mostly given back by the C library, where batches are large; {kept}")
    return Text("up to the C library")


def _of_host(mine: float, hosts: float, figures: str, limiter: str) -> Text:
    """Return what this process may use; marked where that is clearly less than the host has."""
    text = Text(figures.format(mine))
    if mine < 0.99 * hosts:
        text.append(f"  of the host's {figures.format(hosts)}: limited by {limiter}", style="yellow")
    return text
