"""Prepared TensorFlow Datasets sets, and ways to damage their files."""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds


def write_set(root, name, splits, image=None, label=None, shards=4):
    """Writes a prepared TFDS set, `splits` from a split to its images and labels."""
    features = tfds.features.FeaturesDict(
        {
            "image": image or tfds.features.Image(shape=(8, 8, 3), encoding_format="png"),
            "label": label or tfds.features.ClassLabel(names=["ant", "bee", "cow"]),
        }
    )
    folder = root / name / "1.0.0"
    folder.mkdir(parents=True)
    infos = []
    for split, (images, labels) in splits.items():
        template = tfds.core.ShardedFileTemplate(
            data_dir=str(folder), dataset_name=name, split=split, filetype_suffix="tfrecord"
        )
        parts = np.array_split(np.arange(len(labels)), shards)
        for shard, ids in enumerate(parts):
            path = template.sharded_filepath(shard_index=shard, num_shards=shards)
            with tf.io.TFRecordWriter(str(path)) as file:
                for i in ids:
                    example = features.encode_example({"image": images[i], "label": labels[i]})
                    file.write(features.serialize_example(example))
        infos.append(
            tfds.core.SplitInfo(
                name=split, shard_lengths=[len(ids) for ids in parts], num_bytes=0, filename_template=template
            )
        )
    tfds.folder_dataset.write_metadata(
        data_dir=str(folder), features=features, split_infos=infos, supervised_keys=("image", "label")
    )


def _cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _drop_last_record(path):
    # Each record is its length, a checksum of that, the data and another checksum: 8 + 4 + n + 4 bytes.
    content = path.read_bytes()
    starts, place = [], 0
    while place < len(content):
        starts.append(place)
        place += 16 + int.from_bytes(content[place : place + 8], "little")
    path.write_bytes(content[: starts[-1]])


DAMAGE = {
    "record cut": ("*-test.tfrecord-00001-of-00004", _cut),
    "record flipped": ("*-test.tfrecord-00001-of-00004", _flip),
    "record missing": ("*-test.tfrecord-00001-of-00004", _drop_last_record),
    "file missing": ("*-test.tfrecord-00001-of-00004", lambda path: path.unlink()),
    "metadata cut": ("dataset_info.json", _cut),
    "metadata of another kind": ("dataset_info.json", lambda path: path.write_text("[]")),
    "features cut": ("features.json", _cut),
    "features nested deeply": ("features.json", lambda path: path.write_text("[" * 100_000)),
}
