import importlib.util
import sys
from pathlib import Path

import pytest
from PIL import Image

from autopipe.errors import ArgumentError
from autopipe.examples.photographs import check_images, find_broken, jpeg_files, make_photographs


def test_makes_jpeg_files_in_class_folders(tmp_path: Path) -> None:
    make_photographs(tmp_path, count=11)
    files = jpeg_files(tmp_path)
    assert len(files) == 11
    assert len({file.parent for file in files}) == 5
    for file in files:
        with Image.open(file) as image:
            image.load()
            assert (image.format, image.size, image.mode) == ("JPEG", (500, 375), "RGB")
    assert len({file.read_bytes() for file in files}) == 11
    check_images(tmp_path)
    assert find_broken(tmp_path) is None


def test_names_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match="scikit-image is not installed") as caught:
        make_photographs(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ArgumentError, match="pillow is not installed"):
        make_photographs(tmp_path)
    assert 'pip install "keras-autopipe[demo]"' in str(caught.value)
    assert "--images" in str(caught.value)


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def test_says_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "flat" / "1.jpg")
    write(tmp_path / "other" / "roses" / "1.png")
    (tmp_path / "empty" / "roses").mkdir(parents=True)
    write(tmp_path / "odd[1]" / "roses" / "1.jpg")
    for name, said in {
        "missing": "there is no folder",
        "flat/1.jpg": "is a file",
        "flat": "holds no folders",
        "other": r"hold only \.png",
        "empty": "hold no files",
        "odd[1]": "cannot stand in a file pattern",
        "x" * 300: "there is no folder",
    }.items():
        with pytest.raises(ArgumentError, match=said) as caught:
            check_images(tmp_path / name)
        assert str(caught.value).startswith("The images must be JPEG files in class folders")


def test_names_the_broken_files_and_deletes_none(tmp_path: Path) -> None:
    make_photographs(tmp_path, count=10)
    broken = jpeg_files(tmp_path)[:7]
    for file in broken:
        file.write_bytes(file.read_bytes()[:100])
    error = find_broken(tmp_path)
    assert error is not None
    message = str(error)
    assert "7 of 10 cannot" in message
    assert [str(file) in message for file in broken] == [True] * 5 + [False] * 2
    assert "and 2 more" in message
    assert len(jpeg_files(tmp_path)) == 10
