"""What the README, and what it leads to, say is true of the code."""

import inspect
import re
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import autopipe
from autopipe.cli.rules import markdown
from autopipe.rules import catalogue

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def test_the_rules_are_those_of_the_code():
    """``autopipe rules --markdown`` prints what has to stand there."""
    assert "\n".join(markdown(catalogue())) in (ROOT / "docs/rules.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_are_there(page):
    for link in re.findall(r"\]\((?!http)([^)]*)\)", page.read_text()):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not heading or heading in headings(target), link


def headings(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_reference_names_all_that_is_public():
    reference = README[README.index("## Names") : README.index("## Tuning")]
    missing = {name for name in autopipe.__all__ if name not in reference} - {"AutopipeError", "callbacks"}
    assert not missing


@pytest.mark.parametrize("name", ["optimize", "explain"])
def test_the_reference_names_every_argument(name):
    (given,) = re.findall(rf"`autopipe\.{name}\(dataset, \*, (.*?)\)`", README)
    assert given.split(", ") == list(inspect.signature(getattr(autopipe, name)).parameters)[1:]


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")
@pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning")
def test_the_python_example_runs(capsys):
    example = README.split("```python\n")[1].split("```")[0]
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    written = tf.data.Dataset.from_tensor_slices([[1.0], [2.0]]).map(lambda x: (x, x)).batch(1)
    names = {"dataset": written, "model": model}

    exec(example, names)

    assert names["dataset"] is written
    assert "Changed, keeping training" in capsys.readouterr().out
