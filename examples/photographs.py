"""Folders of photographs: one made for the demo, and a look at the user's own."""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from autopipe.errors import ArgumentError, DatasetError

__all__ = ["check_images", "find_broken", "jpeg_files", "make_photographs"]

SIZE = (500, 375)
_QUALITY = 90
_SMALLEST_CROP = 0.5
_MOST_NAMED = 5

# Colour photographs inside the scikit-image wheel; most of its others would be downloaded.
_SOURCES = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "motorcycle": "motorcycle_left.png",
    "rocket": "rocket.jpg",
}


def make_photographs(folder: Path, count: int = 1600) -> None:
    """Write JPEG files of 500x375 pixels into five class folders: crops of real photographs, half of them mirrored.

    Args:
        folder: where the class folders are made.
        count: how many files in all.

    Raises:
        ArgumentError: if scikit-image or pillow is not installed.
    """
    photographs = _photographs()
    for name in photographs:
        (folder / name).mkdir(parents=True, exist_ok=True)
    crops = list(_crops(photographs, folder, count))
    # Pillow releases the GIL while it resizes and encodes.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in track(pool.map(_Crop.save, crops), f"Making {count} JPEG files", total=count, transient=True):
            pass


def check_images(folder: Path) -> None:
    """Check that a folder holds class folders with JPEG files.

    Raises:
        ArgumentError: if it does not, or its name cannot stand in a file pattern.
    """
    received = _wrong_with(folder)
    if received:
        raise ArgumentError(
            f"The images must be JPEG files in class folders, as in FOLDER/roses/1.jpg, but {received}."
        )


def _wrong_with(folder: Path) -> str | None:
    """Return what is wrong with a folder and the remedy; ``None`` for a folder of class folders of images."""
    name = repr(str(folder))
    # Not those of Path, which raise where a name is too long.
    if not os.path.exists(folder):
        return f"there is no folder {name}. Name one that exists"
    if not os.path.isdir(folder):
        return f"{name} is a file. Name the folder that holds the class folders"
    if set(name) & set("*?[]\\"):
        return f"{name} cannot stand in a file pattern. Rename it, so that it has no * ? [ ] or \\ in it"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"{name} cannot be read. Allow that, or name another"
    if not any(path.is_dir() for path in folder.iterdir()):
        return f"{name} holds no folders. Put the images of each class into a folder of its own"
    if not jpeg_files(folder):
        others = sorted({path.suffix for path in folder.glob("*/*") if path.is_file() and path.suffix})
        found = f"only {', '.join(others)}" if others else "no files"
        return f"the class folders of {name} hold {found}. Convert the images to .jpg"
    return None


def jpeg_files(folder: Path) -> list[Path]:
    """Return the files that the pattern ``*/*.jpg`` finds in a folder."""
    return sorted(folder.glob("*/*.jpg"))


def find_broken(folder: Path) -> DatasetError | None:
    """Decode every JPEG file of a folder; return the error that names those that cannot be, ``None`` if all can."""
    import tensorflow as tf

    files = jpeg_files(folder)
    broken: list[Path] = []
    for path in track(files, "Looking for the file that cannot be decoded", transient=True):
        try:
            tf.io.decode_jpeg(tf.io.read_file(str(path)), channels=3)
        except tf.errors.OpError:
            broken.append(path)
    if not broken:
        return None
    named = "\n".join(f"  {path}" for path in broken[:_MOST_NAMED])
    more = f"\n  and {len(broken) - _MOST_NAMED} more" if len(broken) > _MOST_NAMED else ""
    return DatasetError(
        f"Every image must be a JPEG file that can be decoded, but {len(broken)} of {len(files)} cannot:\n"
        f"{named}{more}\n"
        "Remove what is named, or pass a cleaned folder with --images. Nothing was deleted."
    )


@dataclass(frozen=True)
class _Crop:
    photograph: Any
    box: tuple[float, float, float, float]
    mirrored: bool
    target: Path

    def save(self) -> None:
        from PIL import Image, ImageOps

        image = self.photograph.resize(SIZE, Image.Resampling.BILINEAR, box=self.box)
        (ImageOps.mirror(image) if self.mirrored else image).save(self.target, quality=_QUALITY)


def _photographs() -> dict[str, Any]:
    try:
        from PIL import Image
    except ImportError:
        raise _extra_missing("pillow") from None
    wheel = importlib.util.find_spec("skimage")
    if wheel is None or not wheel.submodule_search_locations:
        raise _extra_missing("scikit-image")
    data = Path(wheel.submodule_search_locations[0]) / "data"
    return {name: Image.open(data / file).convert("RGB") for name, file in _SOURCES.items()}


def _extra_missing(package: str) -> ArgumentError:
    return ArgumentError(
        f"Without --images the demo makes its own photographs, which takes scikit-image and pillow, but {package} is "
        'not installed. Run: pip install "keras-autopipe[demo]", or pass --images FOLDER with class folders of JPEG '
        "files."
    )


def _crops(photographs: dict[str, Any], folder: Path, count: int) -> Iterator[_Crop]:
    draw = random.Random(0)
    names = list(photographs)
    for number in range(count):
        name = names[number % len(names)]
        photograph = photographs[name]
        # The largest rectangle of the right proportions that fits, made smaller and moved about.
        widest = min(photograph.width, photograph.height * SIZE[0] / SIZE[1])
        width = widest * draw.uniform(_SMALLEST_CROP, 1)
        height = width * SIZE[1] / SIZE[0]
        left, top = draw.uniform(0, photograph.width - width), draw.uniform(0, photograph.height - height)
        box = (left, top, left + width, top + height)
        yield _Crop(photograph, box, draw.random() < 0.5, folder / name / f"{number:04}.jpg")
