import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TRAIN = """
import tensorflow as tf

import shapes


def make_dataset(batch_size=4, name="x"):
    return tf.data.Dataset.range(64).cache().map(shapes.column).batch(batch_size)


def make_model():
    import keras

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def broken_model():
    import keras

    def loss(true, predicted):
        raise ValueError("no such loss")

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    return model


def frozen():
    return tf.data.Dataset.range(64).map(lambda x: tf.random.uniform([])).cache().batch(4)


def reads():
    return tf.data.TFRecordDataset("damaged.tfrecord").batch(2)


def make_uncompiled():
    import keras

    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])


def needs_folder(folder):
    return make_dataset()


def train_and_validation():
    return make_dataset(), make_dataset()


def forgets():
    make_dataset()


def runs_python():
    def count(x):
        print("python ran")
        return x

    return tf.data.Dataset.range(8).map(lambda x: tf.py_function(count, [x], tf.int64)).cache().batch(2)


def kept_in_file():
    return tf.data.Dataset.range(8).cache("kept").batch(2)


def kept_and_unread():
    return tf.data.Dataset.range(8).cache().unique().batch(2)


def from_arrays():
    images = tf.zeros([16, 4, 4, 3], tf.uint8)
    return tf.data.Dataset.from_tensor_slices((images, tf.range(16))).map(shapes.first).map(lambda x: x + 1).batch(4)


def optimizes():
    import autopipe

    return autopipe.optimize(make_dataset())


def optimizes_and_maps():
    return optimizes().map(lambda x, y: (x, y + 1)).prefetch(2)


def empty():
    return make_dataset().take(0)


def raises():
    return make_dataset()["no such [key]"]


def raises_late():
    def check(x):
        tf.debugging.assert_less(x, tf.constant(40, tf.int64), message="too big")
        return x

    return tf.data.Dataset.range(64).map(check).batch(2)


def raises_always():
    return tf.data.Dataset.range(64).cache().map(lambda x: tf.debugging.check_numerics(0.0 / tf.zeros([]), "bad"))


dataset = make_dataset()
"""
SHAPES = """
import tensorflow as tf


def column(x):
    return tf.reshape(tf.cast(x, tf.float32), [1]), tf.cast(x, tf.float32)


def first(image, label):
    return tf.reduce_mean(tf.cast(image, tf.float32)) + tf.cast(label, tf.float32)
"""


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a target put on the path and imported."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("helps_own", "own", "shapes", "train"):
        sys.modules.pop(name, None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's train.py, entered."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "shapes.py").write_text(SHAPES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def user_file(tmp_path: Path) -> Callable[[str], str]:
    """Write a user's file and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "own.py"
        path.write_text(text)
        return str(path)

    return write
