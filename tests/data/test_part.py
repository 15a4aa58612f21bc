"""A part of a data set, to try a recipe on."""

import numpy as np
import tensorflow as tf

from athe_tf.data import Files, ImageSet, StreamedSet


def streamed(folder):
    """Six images in two files; all pixels of an image, and its label, are its number."""
    for name, numbers in (("a", range(3)), ("b", range(3, 6))):
        with tf.io.TFRecordWriter(str(folder / name)) as file:
            for number in numbers:
                file.write(tf.io.encode_png(np.full([2, 2, 1], number, "uint8")).numpy())
    files = Files([str(folder / "a"), str(folder / "b")], skip=[0, 0], take=[3, 3])

    def decode(png):
        return tf.io.decode_png(png, channels=1)

    return StreamedSet(
        files, lambda png: (png, tf.cast(decode(png)[0, 0, 0], tf.int32)), decode, (2, 2, 1), 6
    )


def test_a_part_of_images_on_disk_is_the_first_of_them(tmp_path):
    whole = streamed(tmp_path)
    for count, files in ((4, 2), (3, 1), (2, 1)):
        part = whole.part(count)
        assert len(part) == count and f"{count} images in {files} files" in part.fingerprint()
        assert part.arrays(10)[1].tolist() == list(range(count))
        labels = np.concatenate([y.numpy() for _, y in part.stream(count, seed=0, epochs=1)])
        assert sorted(labels) == list(range(count))
    assert len(whole) == 6 and whole.arrays(10)[1].tolist() == list(range(6))


def test_a_part_of_images_in_memory_is_a_random_one():
    images = np.arange(100, dtype="uint8")[:, None, None, None]
    part = ImageSet(images, np.arange(100)).part(20)
    assert len(part) == 20 and part.labels.max() > 50
    np.testing.assert_array_equal(part.images[:, 0, 0, 0], part.labels)
    assert ImageSet(images, np.arange(100)).part(20).fingerprint() == part.fingerprint()
