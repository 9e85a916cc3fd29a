"""Functions of images: augmentation, branches and loops."""

import tensorflow as tf

from real_functions.data import (
    FREE_GENERATOR,
    GENERATOR,
    IMAGES,
    LABELS,
    LINES,
    MEAN,
    NUMBERS,
    SCALE,
    SIDE,
    TABLE,
    images,
    labelled,
)

Dataset = tf.data.Dataset


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    image = tf.image.random_contrast(image, 0.8, 1.2)
    return tf.clip_by_value(image, 0, 255), label


def augment_seeded(image, label):
    image = tf.image.random_flip_up_down(image, seed=1)
    image = tf.image.random_hue(image / 255.0, 0.1, seed=2)
    image = tf.image.random_saturation(image, 0.8, 1.2, seed=3)
    image = tf.image.resize_with_crop_or_pad(image, SIDE + 4, SIDE + 4)
    return tf.image.random_crop(image, (SIDE, SIDE, 3), seed=4), label


def augment_stateless(image, label):
    seed = tf.stack([label, label * 7])
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_brightness(image, 0.2, seed + 1)
    image = tf.image.stateless_random_contrast(image, 0.8, 1.2, seed + 2)
    image = tf.image.stateless_random_hue(image / 255.0, 0.1, seed + 3)
    image = tf.image.stateless_random_saturation(image, 0.8, 1.2, seed + 4)
    return tf.image.stateless_random_crop(image, (8, 8, 3), seed + 5), label


def augment_from_generator(image, label):
    seed = GENERATOR.make_seeds(2)[0]
    image = tf.image.stateless_random_flip_left_right(image, seed)
    return tf.image.stateless_random_crop(image, (12, 12, 3), seed), label


def noise_from_generator(image):
    return image + GENERATOR.normal(tf.shape(image)) + FREE_GENERATOR.uniform(()) * 0.0


def quarter_turns(image):
    return tf.image.rot90(image, tf.random.uniform((), 0, 4, tf.int32))


def quarter_turns_seeded(image):
    return tf.image.rot90(image, tf.random.uniform((), 0, 4, tf.int32, seed=3))


def scale(image, label, seed=None):
    part = tf.random.uniform((), 0.5, 2.0, seed=seed)
    size = tf.cast(tf.cast(tf.shape(image)[:2], tf.float32) * part, tf.int32)
    return tf.image.resize_with_crop_or_pad(tf.image.resize(image, size), SIDE, SIDE), label


def cutout(image):
    corner = tf.random.uniform((2,), 0, SIDE - 4, tf.int32)
    hole = tf.pad(tf.ones((4, 4, 1)), [[corner[0], SIDE - 4 - corner[0]], [corner[1], SIDE - 4 - corner[1]], [0, 0]])
    return tf.ensure_shape(image * (1 - hole), (SIDE, SIDE, 3))


def cutout_stateless(image, label):
    corner = tf.random.stateless_uniform((2,), [label, 3], 0, SIDE - 4, tf.int32)
    rows = tf.range(SIDE)[:, None, None] - corner[0]
    columns = tf.range(SIDE)[None, :, None] - corner[1]
    hole = (rows >= 0) & (rows < 4) & (columns >= 0) & (columns < 4)
    return tf.where(hole, 0.0, image), label


def _two(function):
    one = Dataset.from_tensor_slices((IMAGES, tf.one_hot(LABELS, 3)))
    return Dataset.zip((one, one.skip(1).concatenate(one.take(1)))).map(function)


def _beta():
    first, second = tf.random.gamma((), 0.4), tf.random.gamma((), 0.4)
    return first / (first + second)


def mix_up(one, two):
    share = _beta()
    return tuple(share * left + (1 - share) * right for left, right in zip(one, two, strict=True))


def cut_mix(one, two):
    share = tf.random.uniform((), seed=9)
    length = tf.cast(SIDE * tf.sqrt(1 - share), tf.int32)
    corner = tf.random.uniform((2,), 0, SIDE, tf.int32, seed=10)
    low, high = tf.maximum(corner - length // 2, 0), tf.minimum(corner + length // 2, SIDE)
    grid = tf.stack(tf.meshgrid(tf.range(SIDE), tf.range(SIDE), indexing="ij"), -1)
    inside = tf.reduce_all((grid >= low) & (grid < high), -1, keepdims=True)
    kept = 1 - tf.reduce_mean(tf.cast(inside, tf.float32))
    return tf.where(inside, two[0], one[0]), kept * one[1] + (1 - kept) * two[1]


def _chosen(image, which, strength):
    gray = tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(image))
    return tf.switch_case(
        which,
        [
            lambda: image,
            lambda: 255 - image,
            lambda: tf.where(image < 128 * strength, image, 255 - image),
            lambda: tf.image.adjust_contrast(image, strength + 0.5),
            lambda: image * strength + gray * (1 - strength),
            lambda: tf.image.flip_left_right(image),
        ],
    )


def rand_augment(image):
    for _ in range(2):
        image = _chosen(image, tf.random.uniform((), 0, 6, tf.int32), tf.random.uniform(()))
    return image


def rand_augment_stateless(image, label):
    for step in range(2):
        seed = tf.stack([label, tf.constant(step, tf.int64)])
        which = tf.random.stateless_uniform((), seed, 0, 6, tf.int32)
        image = _chosen(image, which, tf.random.stateless_uniform((), seed + 1))
    return image, label


def maybe_gray(image):
    def gray():
        return tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(image))

    return tf.cond(tf.random.uniform(()) < 0.5, gray, lambda: image)


def draws_in_a_branch(image):
    return tf.cond(image[0, 0, 0] > 100, lambda: image + tf.random.uniform((), seed=4), lambda: image)


def gray_by_label(image, label):
    if label > 1:
        image = tf.repeat(tf.reduce_mean(image, -1, keepdims=True), 3, -1)
    elif label == 1:
        image = tf.reverse(image, [0])
    return image, label


def blur_by_label(image, label):
    kernel = tf.ones((3, 3, 3, 1)) / 9.0
    step = tf.constant(0, tf.int64)
    while step < label:
        image = tf.nn.depthwise_conv2d(image[None], kernel, [1, 1, 1, 1], "SAME")[0]
        step += 1
    return image, label


def boxes(image):
    total = tf.zeros((4, 4))
    for row in tf.range(4):
        total += image[row * 4 : row * 4 + 4, :4, 0] * tf.cast(row, tf.float32)
    return total


def collected(image):
    means = tf.TensorArray(tf.float32, 4)
    for row in tf.range(4):
        means = means.write(row, tf.reduce_mean(image[row]))
    return means.stack()


def while_loop(image):
    return tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * 0.5 + 1), [0, image])[1]


@tf.function
def _standardized(image):
    return tf.image.per_image_standardization(image) * SCALE


@tf.function
def _centered(image):
    return image - tf.reduce_mean(image, (0, 1), keepdims=True)


def two_views(image):
    def view():
        crop = tf.image.random_crop(image, (12, 12, 3))
        return tf.image.random_flip_left_right(tf.image.resize(crop, (8, 8)))

    return view(), view()


def contrastive(image, line):
    crop = tf.image.random_crop(image, (12, 12, 3), seed=1)
    pixels = (tf.image.resize(crop, (8, 8)) - MEAN) / 60.0
    tokens = TABLE.lookup(tf.strings.split(tf.strings.lower(line)))[:4]
    return {"image": pixels, "tokens": tf.pad(tokens, [[0, 4 - tf.size(tokens)]]), "line": line}


def patches(image):
    found = tf.image.extract_patches(image[None], [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], "VALID")
    return tf.reshape(found, (16, 48))


def inception_crop(image):
    box = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
    begin, size, _ = tf.image.sample_distorted_bounding_box(tf.shape(image), box, seed=3, min_object_covered=0.3)
    return tf.ensure_shape(tf.image.resize(tf.slice(image, begin, size), (8, 8)), (8, 8, 3))


def inception_crop_stateless(image, label):
    box = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
    made = tf.image.stateless_sample_distorted_bounding_box(tf.shape(image), box, tf.stack([label, label]))
    return tf.ensure_shape(tf.image.resize(tf.slice(image, made[0], made[1]), (8, 8)), (8, 8, 3)), label


def jpeg_noise(image):
    return tf.image.random_jpeg_quality(tf.cast(image, tf.uint8), 50, 90)


def smoothed(image, label):
    return image, tf.one_hot(label, 3) * 0.9 + 0.1 / 3


IMAGE_FUNCTIONS = {
    "augment": lambda: labelled(augment),
    "augment seeded": lambda: labelled(augment_seeded),
    "augment stateless": lambda: labelled(augment_stateless),
    "augment from a generator": lambda: labelled(augment_from_generator),
    "noise from generators": lambda: images(noise_from_generator),
    "quarter turns": lambda: images(quarter_turns),
    "quarter turns seeded": lambda: images(quarter_turns_seeded),
    "scale": lambda: labelled(scale),
    "scale seeded": lambda: labelled(lambda image, label: scale(image, label, seed=8)),
    "cutout": lambda: images(cutout),
    "cutout stateless": lambda: labelled(cutout_stateless),
    "mix up": lambda: _two(mix_up),
    "cut mix": lambda: _two(cut_mix),
    "rand augment": lambda: images(rand_augment),
    "rand augment stateless": lambda: labelled(rand_augment_stateless),
    "maybe gray": lambda: images(maybe_gray),
    "draws in a branch": lambda: images(draws_in_a_branch),
    "AutoGraph branches": lambda: labelled(gray_by_label),
    "AutoGraph while": lambda: labelled(blur_by_label),
    "AutoGraph for": lambda: images(boxes),
    "AutoGraph array": lambda: images(collected),
    "while loop": lambda: images(while_loop),
    "function with a variable": lambda: images(lambda image: _standardized(image)),
    "function inside": lambda: images(lambda image: _centered(image) / 2),
    "two views": lambda: images(two_views),
    "contrastive": lambda: Dataset.from_tensor_slices((IMAGES, LINES)).map(contrastive),
    "patches": lambda: images(patches),
    "inception crop": lambda: images(inception_crop),
    "inception crop stateless": lambda: labelled(inception_crop_stateless),
    "standardize": lambda: images(tf.image.per_image_standardization),
    "imagenet": lambda: labelled(lambda image, label: ((image - MEAN) / 60.0, label)),
    "sums": lambda: Dataset.from_tensor_slices((IMAGES, *NUMBERS.T[:2])).map(lambda image, a, b: image + a + 0.1 + b),
    "products": lambda: labelled(lambda image, label: (image * tf.sqrt(tf.cast(label, tf.float32)) * 0.7 * 0.3, label)),
    "jpeg noise": lambda: images(jpeg_noise),
    "smoothed": lambda: labelled(smoothed),
}
