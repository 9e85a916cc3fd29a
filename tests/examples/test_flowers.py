import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import autopipe
from autopipe.errors import DatasetError
from autopipe.examples import flowers, measuring
from autopipe.examples.photographs import jpeg_files, make_photographs


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    make_photographs(tmp_path, count=70)
    return tmp_path


def test_the_pipeline_gives_every_image_with_its_label(photographs: Path) -> None:
    batches = list(flowers.naive_pipeline(photographs))
    assert [len(labels) for _, labels in batches] == [32, 32, 6]
    assert Counter(label for _, labels in batches for label in labels.numpy().tolist()) == dict.fromkeys(range(5), 14)
    images = batches[0][0].numpy()
    assert images.shape == (32, 160, 160, 3)
    assert -1.5 < images.min() < -0.5 < 0.5 < images.max() < 1.5


@pytest.mark.usefixtures("as_fast")
def test_autopipe_decodes_before_a_cache_of_its_own(photographs: Path) -> None:
    """That of the pipeline as written holds an order that was drawn, and so stays where it is."""
    account = autopipe.optimize(flowers.naive_pipeline(photographs)).explain().to_dict()
    written, run = ("".join(account[side]) for side in ("before", "after"))
    assert written.rindex("cache()") < written.index("decode_and_resize")
    assert run.index("decode_and_resize") < run.rindex("cache()") < run.index("augment")


def test_trains_both_and_compares(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(flowers, "EPOCHS_AS_WRITTEN", 2)
    monkeypatch.setattr(flowers, "EPOCHS_OPTIMIZED", 2)
    monkeypatch.setattr(flowers, "make_photographs", lambda folder: make_photographs(folder, count=64))
    monkeypatch.setattr(measuring, "_WINDOWS", 2)
    monkeypatch.setattr(measuring, "_WINDOW_SECONDS", 0.01)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flowers.main()
    said = capsys.readouterr().out
    for row in ("epoch, seconds", "waiting for data", "images/s, no model"):
        assert row in said
    assert "cache_after_map" in said
    assert "in 2 pairs of neighbouring windows" in said
    assert "dataset.original" in said
    # Python keeps there what it has compiled of the files that AutoGraph writes.
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == []


def test_a_corrupt_image_is_named(photographs: Path) -> None:
    corrupt = jpeg_files(photographs)[33]
    corrupt.write_bytes(corrupt.read_bytes()[:200])
    with pytest.raises(DatasetError, match="1 of 70 cannot") as caught:
        flowers.main(images=photographs)
    assert str(corrupt) in str(caught.value)
    assert "--images" in str(caught.value)
    assert corrupt.exists()


def test_the_file_runs_by_itself_and_ends_with_one_message(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(flowers.__file__), "--images", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: The images must be JPEG files in class folders")
    assert len(done.stderr.splitlines()) == 1
