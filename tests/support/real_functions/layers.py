"""Keras layers as map functions, and functions that call some."""

import keras
import tensorflow as tf

from real_functions.data import (
    GENERATOR,
    IDS,
    LINES,
    NUMBERS,
    SIDE,
    WORDS,
    batches,
    batches_of_ids,
    ids,
    images,
    labelled,
    lines,
    numbers,
    sounds,
    words,
)

Dataset = tf.data.Dataset
layers = keras.layers


def _adapted(layer, data):
    layer.adapt(data)
    return layer


LAYERS = {
    "CategoryEncoding": (ids, lambda: layers.CategoryEncoding(4, "one_hot")),
    "CenterCrop": (images, lambda: layers.CenterCrop(8, 10)),
    "CenterCrop larger": (images, lambda: layers.CenterCrop(20, 24)),
    "Discretization": (numbers, lambda: layers.Discretization([-0.5, 0.0, 0.5])),
    "Discretization adapted": (numbers, lambda: _adapted(layers.Discretization(num_bins=3), NUMBERS)),
    "Hashing": (words, lambda: layers.Hashing(3)),
    "Hashing with salt": (words, lambda: layers.Hashing(3, salt=[1, 2])),
    "Hashing one hot": (batches_of_ids, lambda: layers.Hashing(3, output_mode="one_hot")),
    "IntegerLookup": (ids, lambda: layers.IntegerLookup(vocabulary=[1, 2, 3])),
    "IntegerLookup one hot": (ids, lambda: layers.IntegerLookup(vocabulary=[1, 2, 3], output_mode="one_hot")),
    "Normalization": (numbers, lambda: layers.Normalization(mean=[0.5] * 4, variance=[2.0] * 4)),
    "Normalization adapted": (numbers, lambda: _adapted(layers.Normalization(), NUMBERS)),
    "Rescaling": (images, lambda: layers.Rescaling(1 / 255)),
    "Resizing": (images, lambda: layers.Resizing(9, 8)),
    "Resizing keeping the ratio": (images, lambda: layers.Resizing(9, 8, crop_to_aspect_ratio=True)),
    "Resizing padded": (images, lambda: layers.Resizing(9, 8, pad_to_aspect_ratio=True)),
    "StringLookup": (words, lambda: layers.StringLookup(vocabulary=WORDS[1:])),
    "StringLookup inverted": (ids, lambda: layers.StringLookup(vocabulary=WORDS, invert=True)),
    "StringLookup adapted": (words, lambda: _adapted(layers.StringLookup(output_mode="multi_hot"), WORDS)),
    "TextVectorization": (
        lambda function: lines(lambda line: function(line[None])[0]),
        lambda: layers.TextVectorization(vocabulary=WORDS, output_sequence_length=5),
    ),
    "TextVectorization ragged": (lines, lambda: layers.TextVectorization(vocabulary=WORDS, ragged=True)),
    "TextVectorization counts": (lines, lambda: layers.TextVectorization(vocabulary=WORDS, output_mode="count")),
    "TextVectorization bigrams": (lines, lambda: _adapted(layers.TextVectorization(ngrams=2), LINES)),
    "TextVectorization of letters": (lines, lambda: _adapted(layers.TextVectorization(split="character"), LINES)),
    "MelSpectrogram": (
        sounds,
        lambda: layers.MelSpectrogram(fft_length=64, sequence_stride=32, sampling_rate=800, num_mel_bins=8),
    ),
    "STFTSpectrogram": (
        lambda function: sounds(lambda sound: function(sound[None, :, None])),
        lambda: layers.STFTSpectrogram(frame_length=64, frame_step=32, fft_length=64),
    ),
    "AutoContrast": (images, lambda: layers.AutoContrast()),
    "ContrastLimitedAdaptiveHistogramEqualization": (
        images,
        lambda: layers.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=(2, 2)),
    ),
    "Equalization": (images, lambda: layers.Equalization()),
    "Solarization": (images, lambda: layers.Solarization(0.2, 0.3, seed=1)),
    "AugMix": (images, lambda: layers.AugMix(num_chains=2, chain_depth=2, seed=1)),
    "RandAugment": (images, lambda: layers.RandAugment(num_ops=2, seed=1)),
    "RandomBrightness": (images, lambda: layers.RandomBrightness(0.3, seed=1)),
    "RandomColorDegeneration": (images, lambda: layers.RandomColorDegeneration(0.5, seed=1)),
    "RandomColorJitter": (images, lambda: layers.RandomColorJitter((0, 255), 0.3, 0.3, 0.3, 0.3, seed=1)),
    "RandomContrast": (images, lambda: layers.RandomContrast(0.3, seed=1)),
    "RandomCrop": (images, lambda: layers.RandomCrop(8, 10, seed=1)),
    "RandomElasticTransform": (images, lambda: layers.RandomElasticTransform(seed=1)),
    "RandomErasing": (images, lambda: layers.RandomErasing(seed=1)),
    "RandomFlip": (images, lambda: layers.RandomFlip(seed=1)),
    "RandomFlip without a seed": (images, lambda: layers.RandomFlip()),
    "RandomGaussianBlur": (images, lambda: layers.RandomGaussianBlur(seed=1)),
    "RandomGrayscale": (images, lambda: layers.RandomGrayscale(seed=1)),
    "RandomHue": (images, lambda: layers.RandomHue(0.3, seed=1)),
    "RandomInvert": (images, lambda: layers.RandomInvert(0.5, seed=1)),
    "RandomPerspective": (images, lambda: layers.RandomPerspective(seed=1)),
    "RandomPosterization": (images, lambda: layers.RandomPosterization(4, seed=1)),
    "RandomRotation": (images, lambda: layers.RandomRotation(0.2, seed=1)),
    "RandomSaturation": (images, lambda: layers.RandomSaturation(0.4, seed=1)),
    "RandomSharpness": (images, lambda: layers.RandomSharpness(0.4, seed=1)),
    "RandomShear": (images, lambda: layers.RandomShear(0.3, 0.3, seed=1)),
    "RandomTranslation": (images, lambda: layers.RandomTranslation(0.2, 0.2, seed=1)),
    "RandomZoom": (images, lambda: layers.RandomZoom(0.2, seed=1)),
    "Sequential": (
        images,
        lambda: keras.Sequential(
            [layers.RandomFlip(seed=1), layers.RandomRotation(0.1, seed=2), layers.Resizing(8, 8)]
        ),
    ),
    "Pipeline": (
        images,
        lambda: layers.Pipeline([layers.RandomFlip(seed=1), layers.RandomZoom(0.2, seed=2), layers.Rescaling(2.0)]),
    ),
}
BATCH_LAYERS = {"CutMix": lambda: layers.CutMix(seed=1), "MixUp": lambda: layers.MixUp(seed=1)}
# Before Keras 3.8 there were no boxes.
KNOWS_BOXES = hasattr(layers, "MaxNumBoundingBoxes")
BOXED_LAYERS = {
    "MaxNumBoundingBoxes": lambda: layers.MaxNumBoundingBoxes(3, bounding_box_format="xyxy"),
    "RandomCrop of boxes": lambda: layers.RandomCrop(8, 8, bounding_box_format="xyxy", seed=1),
    "RandomFlip of boxes": lambda: layers.RandomFlip(bounding_box_format="xyxy", seed=1),
    "RandomTranslation of boxes": lambda: layers.RandomTranslation(0.2, 0.2, bounding_box_format="xyxy", seed=1),
}


def _layer(source, make):
    layer = make()
    takes_training = "training" in layer._call_signature.parameters
    return source(lambda x: layer(x, training=True) if takes_training else layer(x))


def _batch_layer(make):
    layer = make()
    return batches(lambda x, y: layer({"images": x, "labels": tf.one_hot(y, 3)}, training=True))


def hashed_crossing():
    layer = layers.HashedCrossing(5)
    return Dataset.from_tensor_slices((WORDS, IDS)).map(lambda word, number: layer((word, number)))


def _boxed_layer(make):
    layer = make()
    boxes = tf.constant([[[1.0, 2.0, 5.0, 6.0], [0.0, 0.0, 3.0, 3.0]]])

    def call(image):
        boxed = {"images": image[None], "bounding_boxes": {"boxes": boxes, "labels": tf.constant([[1, 2]])}}
        return layer(boxed, training=True)

    return images(call)


def generator_with_layers():
    flip, turn = layers.RandomFlip(seed=1), layers.RandomRotation(0.2, seed=2)

    def both(image, label):
        image = tf.image.random_brightness(turn(flip(image, training=True), training=True), 20.0, seed=3)
        return image + GENERATOR.uniform(()), label

    return labelled(both)


def shared_generator():
    seeds = keras.random.SeedGenerator(3)

    def both(image):
        image = image + keras.random.normal((SIDE, 1, 1), seed=seeds)
        return image * keras.random.uniform((), seed=seeds), keras.random.randint((), 0, 5, seed=seeds)

    return images(both)


def layer_in_a_branch():
    flip = layers.RandomFlip(seed=1)
    return images(lambda image: tf.cond(image[0, 0, 0] > 100, lambda: flip(image, training=True), lambda: image))


def model_in_a_map():
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, "relu", kernel_initializer="ones")])
    return numbers(lambda row: model(row[None], training=False)[0])


def keras_random():
    seeds = keras.random.SeedGenerator(3)
    return images(lambda image: image + keras.random.normal((SIDE, SIDE, 1), seed=seeds))


_LAYERS = {
    **{name: (lambda source=source, make=make: _layer(source, make)) for name, (source, make) in LAYERS.items()},
    **{name: (lambda make=make: _batch_layer(make)) for name, make in BATCH_LAYERS.items()},
    **{name: (lambda make=make: _boxed_layer(make)) for name, make in BOXED_LAYERS.items() if KNOWS_BOXES},
}


LAYER_FUNCTIONS = {
    **{name: make for name, make in _LAYERS.items() if hasattr(layers, name.split()[0]) or name == "Sequential"},
    "HashedCrossing": hashed_crossing,
    "layers and a generator": generator_with_layers,
    "shared generator": shared_generator,
    "layer in a branch": layer_in_a_branch,
    "model": model_in_a_map,
    "keras.random": keras_random,
}
