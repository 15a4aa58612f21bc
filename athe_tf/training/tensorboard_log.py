"""A log for TensorBoard, written with TensorFlow alone; the package is needed to look at it."""

import pathlib
import time

import keras
import numpy as np
import tensorflow as tf

from athe_tf.attacks.engine.attack import Attack
from athe_tf.drawing.png import encode

Summary = tf.compat.v1.Summary


class TensorBoardLog(keras.callbacks.Callback):
    """Logs every epoch of adversarial training: scalars, adversarial examples of one batch, angles.

    Example:

    >>> log = athe_tf.training.TensorBoardLog("logs", images, labels, attack)
    >>> log.folder.name
    'logs'

    Args:
        folder: Where to write; created if necessary. Look at it with `tensorboard --logdir=FOLDER`.
        images: A few images, the same in every epoch.
        labels: Their labels.
        attack: Makes their adversarial examples.
    """

    def __init__(self, folder, images, labels, attack: Attack):
        super().__init__()
        self.folder, self.images, self.labels, self.attack = pathlib.Path(folder), images, labels, attack
        self.writer: tf.io.TFRecordWriter | None = None

    def on_train_begin(self, logs=None):
        if self.writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.writer = tf.io.TFRecordWriter(str(self.folder / f"events.out.tfevents.{time.time_ns()}"))
            self._write(tf.compat.v1.Event(file_version="brain.Event:2"))

    def on_epoch_end(self, epoch, logs=None):
        values = [Summary.Value(tag=name, simple_value=float(each)) for name, each in (logs or {}).items()]
        victim = self.model.victim(training=False)
        found = self.attack.run(victim, self.images, self.labels, batch_size=len(self.images)).x_adv
        picture = np.concatenate([np.concatenate([*some], axis=1) for some in (self.images, found)])
        image = Summary.Image(
            height=len(picture), width=picture.shape[1], colorspace=3, encoded_image_string=encode(picture)
        )
        values.append(Summary.Value(tag="clean and adversarial images", image=image))
        if victim.scale is not None:
            logits = np.asarray(victim.logits(tf.constant(found, tf.float32)))
            angles = np.degrees(np.arccos(np.clip(logits / victim.scale, -1, 1)))
            true = np.arange(logits.shape[1]) == np.asarray(self.labels)[:, None]
            values.append(_histogram("angle to the true class", angles[true]))
            values.append(_histogram("angle to other classes", angles[~true]))
        self._write(tf.compat.v1.Event(step=epoch + 1, summary=Summary(value=values)))

    def _write(self, event) -> None:
        assert self.writer is not None
        event.wall_time = time.time()
        self.writer.write(event.SerializeToString())
        self.writer.flush()


def _histogram(tag: str, values: np.ndarray):
    counts, edges = np.histogram(values, bins=36, range=(0, 180))
    moments = {"num": values.size, "sum": values.sum(), "sum_squares": (values**2).sum()}
    ends = {"min": values.min(), "max": values.max(), "bucket_limit": edges[1:], "bucket": counts}
    return Summary.Value(tag=tag, histo=tf.compat.v1.HistogramProto(**moments, **ends))
