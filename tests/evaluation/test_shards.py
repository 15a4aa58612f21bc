"""Shards of an evaluation: each attacks its share of the images, and together they are one evaluation."""

import numpy as np
import pytest
import tensorflow as tf

import athe_tf
from athe_tf.data import Files, ImageSet, StreamedSet
from athe_tf.evaluation.images import LazyImages, digest_of
from athe_tf.evaluation.options import EvaluationOptions
from athe_tf.jobs.shard import Shard
from athe_tf.utils.errors import InputError
from athe_tf.utils.images_and_labels import to_levels
from tests.linear_case import gray_images, linear_model, predictions

LINEAR = linear_model()
IMAGES = gray_images(30)
LABELS = predictions(LINEAR, IMAGES)
LABELS[:4] = (LABELS[:4] + 1) % 5
# Restarts, a cascade that says something about all images, and an attack that draws from the set.
ATTACKS = ["pgd-2x2", "swift", athe_tf.attacks.FeatureAttack(0.004, n_targets=2, steps=2)]
SETTINGS = {"attacks": ATTACKS, "epsilon": 0.004, "batch_size": 8, "checks": False}
BUDGET = {"max_passes": 400}


def shard_of(folder, number, count, **changes):
    options = EvaluationOptions(state=folder / str(number), shard=f"{number}/{count}", **BUDGET)
    settings = {"model": LINEAR, "data": (IMAGES, LABELS), **SETTINGS, **changes}
    return athe_tf.evaluate(options=options, **settings)


def merge(folder, count, **changes):
    options = EvaluationOptions(shards=[folder / str(k) for k in range(1, count + 1)], **BUDGET)
    return athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=options, **{**SETTINGS, **changes})


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The states of three shards, and what each of them returned."""
    folder = tmp_path_factory.mktemp("three")
    return folder, [shard_of(folder, number, 3) for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def whole():
    return athe_tf.evaluate(LINEAR, (IMAGES, LABELS), options=EvaluationOptions(**BUDGET), **SETTINGS)


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_three_shards_are_one_evaluation(three, whole):
    merged = merge(three[0], 3)
    assert without_times(merged.to_dict()) == without_times(whole.to_dict())
    assert any("budget of 400 passes" in note for note in merged["swift"].remarks)
    assert 0 < merged.worst_case_accuracy < merged.clean_accuracy < 1
    for name, array in whole.pictures.items():
        np.testing.assert_allclose(array, merged.pictures[name], atol=1e-6) if array.dtype.kind == "f" else (
            np.testing.assert_array_equal(array, merged.pictures[name])
        )


def test_a_shard_is_a_result_of_its_own_images(three, whole):
    for number, result in enumerate(three[1], start=1):
        rows = Shard(number, 3).rows(30)
        np.testing.assert_array_equal(result.correct, whole.correct[rows])
        for mine, all_of in zip(result.attacks, whole.attacks, strict=True):
            np.testing.assert_array_equal(mine.robust, all_of.robust[rows])
        assert f"shard {number}/3 only" in result.warnings[-1] and result.checks == []


def test_devices_that_round_differently_are_named_when_shards_are_merged(tmp_path, monkeypatch):
    settings = {"attacks": ["fgsm"]}
    other = "NVIDIA A100, TF32: yes, deterministic: no"
    for number in (1, 2):
        if number == 2:
            monkeypatch.setattr("athe_tf.evaluation.state_folder.computed_on", lambda: other)
        (recorded,) = shard_of(tmp_path, number, 2, **settings).settings["computed_on"]
        assert (recorded == other) == (number == 2)
    merged = merge(tmp_path, 2, **settings)
    assert len(merged.settings["computed_on"]) == 2
    (warning,) = [one for one in merged.warnings if getattr(one, "id", "") == "several-devices"]
    assert other in warning and "round differently" in warning
    # A shard that is resumed on another device has both.
    monkeypatch.undo()
    assert len(shard_of(tmp_path, 2, 2, **settings).settings["computed_on"]) == 2


def test_seconds_of_the_shards_are_added(three):
    merged = merge(three[0], 3)
    assert merged["swift"].seconds == pytest.approx(sum(result["swift"].seconds for result in three[1]))


def test_every_image_is_in_one_shard_and_shares_are_equal():
    for examples, count in ((10, 3), (3, 3), (8, 1)):
        shares = [shard.rows(examples) for shard in Shard(1, count).all()]
        np.testing.assert_array_equal(np.sort(np.concatenate(shares)), np.arange(examples))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("text", ["9/8", "0/4", "x", "3", "1/0", "-1/3", "1/2/3", "1.0/3", "3/99999999999"])
def test_a_shard_that_does_not_exist_is_refused(text):
    with pytest.raises(InputError, match="must be the number of a shard, from 1.*Received: shard="):
        Shard.parse(text)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": 1}, "seed=1 .in the file: 0"),
        ({"epsilon": 0.005}, "epsilon=0.005 .in the file: 0.004"),
        ({"attacks": ["pgd-2x2", "fgsm"]}, "Shard 1/3 is not finished. Expected a result of 'fgsm' in"),
        ({"attacks": ["pgd-2x2"], "max_examples": 29}, "examples=29 .in the file: 30"),
    ],
)
def test_shards_of_other_settings_are_not_merged(change, message, three):
    with pytest.raises(InputError, match=message):
        merge(three[0], 3, **change)


def test_shards_of_other_divisions_models_and_versions_are_not_merged(three, monkeypatch):
    with pytest.raises(InputError, match="shard='1/2' .in the file: '1/3'"):
        merge(three[0], 2)
    with pytest.raises(InputError, match="Shard 4/4 is not finished. Expected a state in|shard='1/4'"):
        merge(three[0], 4)
    options = EvaluationOptions(shards=[three[0] / str(k) for k in (1, 2, 3)], **BUDGET)
    with pytest.raises(InputError, match="model='[0-9a-f]{64}' .in the file"):
        athe_tf.evaluate(linear_model(seed=3), (IMAGES, LABELS), options=options, **SETTINGS)
    with monkeypatch.context() as other:
        other.setattr("athe_tf.jobs.journal.__version__", "0.0.0")
        with pytest.raises(InputError, match="athe_tf='0.0.0' .in the file"):
            merge(three[0], 3)
    monkeypatch.setattr("tensorflow.__version__", "1.0.0")
    with pytest.raises(InputError, match="tensorflow='1.0.0' .in the file"):
        merge(three[0], 3)


def test_more_shards_than_images_and_models_that_cannot_be_recognized_are_refused(tmp_path):
    with pytest.raises(InputError, match="31 shards and only 30 images.*Use at most 30"):
        shard_of(tmp_path, 2, 31, attacks=["fgsm"])
    with (
        pytest.warns(UserWarning, match="contains Python code"),
        pytest.raises(InputError, match="could not be recognized"),
    ):
        shard_of(tmp_path, 1, 2, model=lambda x: LINEAR(x), attacks=["fgsm"])
    with pytest.raises(InputError, match="Expected a `state` folder"):
        EvaluationOptions(shard="1/2")


def test_an_attack_that_cannot_be_run_is_not_run_in_the_merged_result_either(tmp_path):
    def logits(x):
        return tf.ensure_shape(tf.py_function(lambda images: LINEAR(images), [x], tf.float32), [None, 5])

    victim = athe_tf.victim(lambda x: tf.stop_gradient(logits(x)))
    victim.num_classes = 5
    victim._digest = lambda: "d" * 64
    settings = {"model": victim, "attacks": ["pgd-1"]}
    results = [shard_of(tmp_path, number, 2, **settings) for number in (1, 2)]
    options = EvaluationOptions(shards=[tmp_path / "1", tmp_path / "2"], **BUDGET)
    merged = athe_tf.evaluate(victim, (IMAGES, LABELS), options=options, **{**SETTINGS, "attacks": ["pgd-1"]})
    for result in (*results, merged):
        assert result.attacks[0].robust is None and "gradient" in result.attacks[0].not_run


class Counting(ImageSet):
    """Images in memory that remember which of them were read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.seen: set[int] = set()

    def rows(self, ids):
        self.seen |= set(np.atleast_1d(ids).tolist())
        return super().rows(ids)


def test_a_shard_reads_only_its_images_and_a_merge_only_the_first_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("athe_tf.evaluation.model_diagnosis.IMAGES", 3)
    levels = to_levels(IMAGES)
    monkeypatch.setattr("athe_tf.evaluation.inputs.digest_of", lambda *_: "of all images")
    monkeypatch.setattr("athe_tf.evaluation.inputs.on_grid", lambda _: True)
    settings = {"attacks": ["pgd-2x2"], "batch_size": 4}
    for number in (1, 2, 3):
        data = Counting(levels, LABELS, 5)
        shard_of(tmp_path, number, 3, data=data, **settings)
        assert data.seen == set(Shard(number, 3).rows(30).tolist())
    data = Counting(levels, LABELS, 5)
    options = EvaluationOptions(shards=[tmp_path / str(k) for k in (1, 2, 3)], **BUDGET)
    merged = athe_tf.evaluate(LINEAR, data, options=options, **{**SETTINGS, **settings})
    assert data.seen <= set(range(4)) and len(merged.correct) == 30


def test_images_in_files_are_evaluated_without_a_limit_in_one_process_and_in_shards(tmp_path):
    levels = to_levels(IMAGES)
    for name, rows in (("a", range(13)), ("b", range(13, 30))):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as file:
            for row in rows:
                file.write(bytes([LABELS[row]]) + levels[row].tobytes())
    files = Files([str(tmp_path / "a"), str(tmp_path / "b")], skip=[0, 0], take=[13, 17])

    def parse(record):
        label = tf.io.decode_raw(tf.strings.substr(record, 0, 1), tf.uint8)[0]
        return tf.strings.substr(record, 1, -1), label

    def decode(pixels):
        return tf.reshape(tf.io.decode_raw(pixels, tf.uint8), IMAGES.shape[1:])

    data = StreamedSet(files, parse, decode, IMAGES.shape[1:], 5)
    arrays, whole = (
        athe_tf.evaluate(LINEAR, each, options=EvaluationOptions(**BUDGET), **SETTINGS)
        for each in ((levels / np.float32(255), LABELS), data)
    )
    for number in (1, 2):
        shard_of(tmp_path / "shards", number, 2, data=data)
    options = EvaluationOptions(shards=[tmp_path / "shards" / str(k) for k in (1, 2)], **BUDGET)
    merged = athe_tf.evaluate(LINEAR, data, options=options, **SETTINGS)
    found = [without_times(each.to_dict()) for each in (arrays, whole, merged)]
    assert found[1] == found[2]
    assert found[0].pop("images_fingerprint") != found[1].pop("images_fingerprint")
    assert found[0] == found[1]


def test_the_digest_of_images_in_memory_is_that_of_their_float_values():
    levels = to_levels(IMAGES)
    images = LazyImages(ImageSet(levels, LABELS, 5))
    assert digest_of(images, LABELS) == digest_of(levels / np.float32(255), LABELS)
