"""The fingerprint says which pipeline it is, wherever its data lies; a plan is written whole or not at all."""

import subprocess
import sys

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.plan import Plan, fingerprint

Dataset = tf.data.Dataset


def scale(x):
    return x * 2


def shift(x):
    return x + 2


def made(function=scale, size=4, n=9):
    return Dataset.range(n).map(function).shuffle(5).batch(size)


def test_the_same_pipeline_has_the_same_fingerprint():
    assert fingerprint(extract(made())) == fingerprint(extract(made()))


@pytest.mark.parametrize("other", [made(shift), made(size=5), made(n=10), made().prefetch(1), made().unbatch()])
def test_another_pipeline_has_another(other):
    assert fingerprint(extract(other)) != fingerprint(extract(made()))


def test_the_data_may_lie_elsewhere():
    def over(names, labels):
        return Dataset.from_tensor_slices((names, labels)).map(lambda name, label: (tf.io.read_file(name), label))

    one, two = over(["a/1.jpg", "a/2.jpg"], [0, 1]), over(["b/7.jpg", "b/8.jpg"], [1, 1])
    assert fingerprint(extract(one)) == fingerprint(extract(two))


def test_another_process_finds_the_same(tmp_path):
    script = tmp_path / "pipeline.py"
    script.write_text(
        "import tensorflow as tf\n"
        "from autopipe.pipeline.extract import extract\n"
        "from autopipe.planning.plan import fingerprint\n"
        "def branch(x):\n"
        "    return tf.cond(x > 2, lambda: x * 2, lambda: x)\n"
        "def make():\n"
        "    return tf.data.Dataset.range(9).map(branch).interleave(tf.data.Dataset.range, cycle_length=2)\n"
        "for _ in range({extra}):\n"
        "    make()\n"
        "print(fingerprint(extract(make())))\n"
    )
    source = script.read_text()
    found = set()
    for extra in ("0", "3"):
        script.write_text(source.replace("{extra}", extra))
        out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
        found.add(out.stdout.strip())
    assert len(found) == 1


def test_a_plan_replaces_the_one_that_was_there(tmp_path):
    path = tmp_path / "plan.json"
    Plan("one").save(path)
    Plan("two", knobs={"a": 1}, rules=("x",)).save(path)
    assert Plan.load(path) == Plan("two", knobs={"a": 1}, rules=("x",))
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]
