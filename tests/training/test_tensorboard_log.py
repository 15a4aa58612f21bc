"""The log for TensorBoard, read back as TensorBoard reads it."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import athe_tf
from athe_tf.programs import train as program
from athe_tf.programs.config import TrainConfig
from tests.small_runs import tiny_batch, tiny_net


def events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    for record in tf.data.TFRecordDataset(str(path)):
        yield tf.compat.v1.Event.FromString(record.numpy())


def test_an_epoch_has_scalars_pictures_and_angles(tmp_path):
    x, y = tiny_batch(8)
    trainer = athe_tf.training.PGDAT(tiny_net("he"), attack=athe_tf.attacks.PGD(0.1, steps=1))
    trainer.compile(optimizer="sgd")
    log = athe_tf.training.TensorBoardLog(tmp_path / "logs", x[:4], y[:4], athe_tf.attacks.PGD(0.1, steps=1))
    history = trainer.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[log]).history
    first, *epochs = events(tmp_path / "logs")
    assert first.file_version == "brain.Event:2" and [event.step for event in epochs] == [1, 2]
    values = {value.tag: value for value in epochs[1].summary.value}
    assert values["loss"].simple_value == pytest.approx(history["loss"][1], rel=1e-6)
    picture = np.asarray(
        Image.open(io.BytesIO(values["clean and adversarial images"].image.encoded_image_string))
    )
    # Clean images above, adversarial ones below, at most 0.1 of 255 levels apart.
    height, width = x.shape[1:3]
    assert picture.shape[:2] == (2 * height, 4 * width)
    assert 1 <= np.abs(picture[:height].astype(int) - picture[height:]).max() <= 26
    true = values["angle to the true class"].histo
    assert true.num == 4 and sum(true.bucket) == 4 and 0 <= true.min <= true.max <= 180
    others = values["angle to other classes"].histo
    assert others.num == 4 * (trainer.net.output_shape[-1] - 1)


def test_a_run_says_what_it_needs_before_it_trains(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard", None)
    with pytest.raises(athe_tf.InputError, match=r"pip install 'athe_tf\[tensorboard\]'"):
        program.action(TrainConfig(tensorboard=True, workdir=str(tmp_path / "run")), {"plan": False})


def test_a_run_without_arguments_shows_the_manual_and_the_recipes(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bin/train"])
    assert program.PROGRAM.exit_code() == 0
    shown = capsys.readouterr().out
    assert "--framework" in shown and "Recipes" in shown and "digits_trades_he" in shown
