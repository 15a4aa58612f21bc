"""Accuracy under corruptions: generated images, the published files, and TensorFlow Datasets."""

import io
import os
import socket

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import athe_tf
from athe_tf.data import corruptions
from athe_tf.data.corruptions import sources
from athe_tf.evaluation import corruptions as room
from athe_tf.evaluation.corruptions import (
    ALEXNET_ERRORS,
    corruption_error,
    evaluate_corruptions,
    source_identity,
)
from athe_tf.jobs.journal import Journal
from athe_tf.report.attack_sections import summary
from athe_tf.utils.errors import InputError


def bright_or_dark(x):
    """Class 1 for images that are brighter than 0.603 on average, with a finite margin."""
    mean = tf.reduce_mean(x, axis=[1, 2, 3])
    return tf.stack([0.603 - mean, mean - 0.603, tf.fill(tf.shape(mean), -9.0)], axis=1)


@pytest.fixture(scope="module")
def model():
    return athe_tf.victim(bright_or_dark, num_classes=3)


@pytest.fixture(scope="module")
def photos():
    """Gray walls of 20 brightnesses; the label says whether a wall is bright."""
    images = np.tile(np.linspace(0.02, 0.98, 20, dtype=np.float32)[:, None, None, None], [1, 8, 8, 3])
    return images, (np.linspace(0.02, 0.98, 20) > 0.603).astype(int)


def test_accuracies_are_those_of_the_corrupted_images(model, photos):
    images, labels = photos
    found = evaluate_corruptions(
        model, images, labels, corruptions=["brightness", "contrast", "fog"], severities=[5, 1], batch_size=7
    )
    assert found["severities"] == [1, 5] and list(found["accuracy"]) == ["brightness", "contrast", "fog"]
    # A wall is predicted bright where its level plus the amount is above 0.603; 8 bits move no wall across.
    levels = np.linspace(0.02, 0.98, 20)
    for accuracy, amount in zip(found["accuracy"]["brightness"], (0.05, 0.3), strict=True):
        assert accuracy == np.mean((np.minimum(levels + amount, 1) > 0.603) == labels)
    assert found["accuracy"]["contrast"] == [1.0, 1.0]  # the mean stays
    foggy = [corruptions.corrupt(images, "fog", severity) for severity in (1, 5)]
    expected = [np.mean((x.mean(axis=(1, 2, 3), dtype=np.float64) > 0.603) == labels) for x in foggy]
    assert found["accuracy"]["fog"] == expected
    assert found["examples"] == 20 and found["generated"] is True and found["source"] == "generated"
    assert found["protocol"] == "the images as given, corrupted with the constants of CIFAR-10-C"


def test_means_are_over_standard_corruptions_and_groups(model, photos):
    chosen = ["brightness", "fog", "contrast", "gaussian_blur"]
    found = evaluate_corruptions(model, *photos, corruptions=chosen, severities=[4, 5])
    cells = found["accuracy"]
    assert found["mca"] == pytest.approx(np.mean([cells[name] for name in chosen[:3]]))
    assert found["mean_error"] == pytest.approx(1 - found["mca"])
    assert found["groups"] == {
        "weather": pytest.approx(np.mean([cells["fog"], cells["brightness"]])),
        "digital": pytest.approx(np.mean(cells["contrast"])),
    }
    assert "mce" not in found
    assert found["remarks"] == [
        "The mean is over 3 of 15 standard corruptions and 2 of 5 severities: it cannot be compared with "
        "published ones."
    ]


def test_batches_do_not_change_the_result(model, photos):
    first, second = (
        evaluate_corruptions(model, *photos, corruptions=["snow"], severities=[2], batch_size=size, seed=3)
        for size in (20, 3)
    )
    assert first == second


def test_progress_counts_images_and_cells(model, photos):
    told = []
    evaluate_corruptions(
        model,
        *photos,
        corruptions=["contrast", "pixelate"],
        severities=[1],
        batch_size=10,
        progress=lambda *line: told.append(line),
    )
    assert [line[0] for line in told] == ["contrast 1"] * 2 + ["pixelate 1"] * 2
    assert [line[1] for line in told] == [10, 20, 30, 40]
    assert told[-1][2:] == (40, 20, 20)


def test_a_run_that_was_stopped_goes_on(model, photos, tmp_path):
    arguments = {"corruptions": ["contrast", "fog"], "severities": [1, 5]}
    whole = evaluate_corruptions(model, *photos, **arguments)

    def stop(cell, *rest):
        if cell == "fog 5":
            raise KeyboardInterrupt

    journal = Journal(tmp_path / "corruptions.npz", {"seed": 0})
    with pytest.raises(KeyboardInterrupt):
        evaluate_corruptions(model, *photos, **arguments, journal=journal, progress=stop)
    told = []
    again = evaluate_corruptions(
        model, *photos, **arguments, journal=journal, progress=lambda *line: told.append(line)
    )
    assert again == whole and {line[0] for line in told} == {"fog 5"}
    assert told[-1][1:3] == (80, 80)


@pytest.mark.parametrize("counts", [[3, 2], [-1, 5], [0, 0], [1, 2, 3], [0.5, 1.0]])
def test_a_state_with_impossible_counts_is_refused(counts, model, photos, tmp_path):
    journal = Journal(tmp_path / "corruptions.npz", {"seed": 0})
    journal.save({"fog 5": np.array(counts)})
    with pytest.raises(InputError, match="cannot be read: expected two counts for 'fog 5', received"):
        evaluate_corruptions(model, *photos, corruptions=["fog"], severities=[5], journal=journal)


def test_replaced_files_of_a_source_are_noticed(tmp_path):
    source = f"folder:{write_folder(tmp_path / 'c')}"
    before = source_identity(source)
    assert source_identity(source) == before
    os.utime(tmp_path / "c" / "fog.npy", ns=(0, 0))
    assert source_identity(source) != before
    name = "cifar10_corrupted"
    assert source_identity(name, tmp_path / "a") != source_identity(name, tmp_path / "b")


# -- the published files ------------------------------------------------------------------------------------


def write_folder(folder, names=("fog", "snow"), count=4):
    """Five severities of `count` images; of severity s, s - 1 images are bright and have the label 0."""
    images = np.zeros([5, count, 8, 8, 3], np.uint8)
    for severity in range(1, 6):
        images[severity - 1, : severity - 1] = 255
    folder.mkdir(exist_ok=True)
    for name in names:
        np.save(folder / f"{name}.npy", images.reshape(-1, 8, 8, 3))
    np.save(folder / "labels.npy", np.zeros(5 * count, np.uint8))
    return folder


def test_published_files_are_read_severity_by_severity(model, tmp_path):
    folder = write_folder(tmp_path / "c")
    found = evaluate_corruptions(model, source=f"folder:{folder}", corruptions=["fog", "snow"], batch_size=3)
    assert found["accuracy"] == {name: [1.0, 0.75, 0.5, 0.25, 0.0] for name in ("fog", "snow")}
    assert found["generated"] is False and found["examples"] == 4
    assert found["protocol"] == "the published files, as they are"


def test_the_first_images_of_each_severity_are_used(model, photos, tmp_path):
    folder = write_folder(tmp_path / "c")
    found = evaluate_corruptions(
        model, photos[0][:2], photos[1][:2], source=f"folder:{folder}", corruptions=["fog"]
    )
    assert found["accuracy"]["fog"] == [1.0, 0.5, 0.0, 0.0, 0.0] and found["examples"] == 2


# -- the folders of ImageNet-C ------------------------------------------------------------------------------


def write_jpeg_folders(root, cells, classes=3):
    """One image of 16 x 16 pixels per class: black, but at severity 5 white in class 0."""
    for cell in cells:
        for label in range(classes):
            folder = root / cell / f"n{label}"
            folder.mkdir(parents=True)
            level = 255 if cell.endswith("5") and label == 0 else 0
            image = np.full([16, 16, 3], level, np.uint8)
            (folder / f"val_{label}.JPEG").write_bytes(tf.io.encode_jpeg(image).numpy())
    return f"folder:{root}"


@pytest.mark.parametrize("parent", ["", "weather/"])
def test_folders_of_imagenet_c_are_read(model, tmp_path, parent):
    source = write_jpeg_folders(tmp_path, [f"{parent}fog/{severity}" for severity in range(1, 6)])
    found = evaluate_corruptions(model, source=source, corruptions=["fog"], batch_size=2)
    # Black is class 0, so that one of three is right unless its image is white.
    np.testing.assert_allclose(found["accuracy"]["fog"], [1 / 3] * 4 + [0])
    assert found["examples"] == 3 and found["generated"] is False
    assert found["protocol"] == "the published files, as they are"
    # Only with the 1,000 classes of ImageNet and all cells.
    assert "mce" not in found


def test_folders_of_imagenet_c_are_resized_for_the_model(tmp_path):
    source = write_jpeg_folders(tmp_path, ["fog/1"])
    images, labels = np.zeros([2, 12, 12, 3], np.float32), np.zeros([2], int)
    opened = sources.open_source(source, images, labels, resize_size=14)
    shapes = [x.shape for x, _ in opened.batches("fog", 1, 9)]
    assert shapes == [(2, 12, 12, 3)] and "resized to 14 pixels before the center crop" in opened.protocol
    opened = sources.open_source(source, images, labels)
    assert [x.shape for x, _ in opened.batches("fog", 1, 9)] == [(2, 12, 12, 3)]
    with pytest.raises(InputError, match="Only folders of ImageNet-C have images to resize"):
        sources.open_source("generated", images, labels, resize_size=14)


def test_incomplete_folders_of_imagenet_c_are_refused_at_once(model, tmp_path):
    source = write_jpeg_folders(tmp_path / "a", ["fog/1", "snow/1", "snow/2"])
    with pytest.raises(InputError, match=r"lacks corruptions.*Missing: fog/2, frost/1, frost/2\."):
        evaluate_corruptions(
            model,
            source=source,
            corruptions=["fog", "snow", "frost"],
            severities=[1, 2],
            progress=print,
        )
    source = write_jpeg_folders(tmp_path / "b", ["fog/1"], classes=2)
    with pytest.raises(InputError, match="has 3 classes, and the corrupted images have 2"):
        evaluate_corruptions(model, source=source, corruptions=["fog"], severities=[1])
    (tmp_path / "a" / "snow" / "2" / "n2" / "val_2.JPEG").unlink()
    (tmp_path / "a" / "snow" / "2" / "n2").rmdir()
    with pytest.raises(InputError, match="snow/2 has other classes than .* Expected 3. Received: 2"):
        evaluate_corruptions(
            model,
            source=f"folder:{tmp_path}/a",
            corruptions=["snow"],
            severities=[1, 2],
            progress=print,
        )
    bad = tmp_path / "a" / "fog" / "1" / "n1" / "val_1.JPEG"
    bad.write_bytes(bad.read_bytes()[:100])
    with pytest.raises(InputError, match="The file .*val_1.JPEG .*is not a PNG or JPEG image"):
        evaluate_corruptions(model, source=f"folder:{tmp_path}/a", corruptions=["fog"], severities=[1])


def test_files_that_do_not_fit_are_refused(model, tmp_path):
    def run(folder):
        return evaluate_corruptions(model, source=f"folder:{folder}", corruptions=["fog"])

    with pytest.raises(InputError, match=r"No such folder of corrupted images. Received: folder:.*nowhere"):
        run(tmp_path / "nowhere")
    folder = write_folder(tmp_path / "c", names=["snow"])
    with pytest.raises(InputError, match=r"lacks fog.npy. Expected the files of CIFAR-10-C"):
        run(folder)
    np.save(folder / "fog.npy", np.zeros([19, 8, 8, 3], np.uint8))
    with pytest.raises(InputError, match=r"Expected uint8 \[20, H, W, C\].*shape=\(19, 8, 8, 3\)"):
        run(folder)
    (folder / "fog.npy").write_bytes(b"\x93NUMPY cut short")
    with pytest.raises(InputError, match=r"fog.npy is not a NumPy array, or it is truncated"):
        run(folder)
    np.save(folder / "labels.npy", np.zeros(19, np.uint8))
    with pytest.raises(InputError, match=r"labels.npy .*Expected \[5 \* N\].*shape=\(19,\)"):
        run(folder)
    write_folder(folder)
    np.save(folder / "labels.npy", np.full(20, 99, np.uint8))
    message = "in 0..2 with 3 classes. Received: min=99, max=99. Use corruptions of the data set that"
    with pytest.raises(InputError, match=f"Labels must be integers {message}"):
        run(folder)


def test_images_of_another_size_are_named(tmp_path):
    model = athe_tf.models.build("small_cnn", 3, input_shape=(6, 6, 3))
    folder = write_folder(tmp_path / "c")
    with pytest.raises(InputError, match=r"does not take images of shape \(8, 8, 3\)"):
        evaluate_corruptions(model, source=f"folder:{folder}", corruptions=["fog"])


# -- TensorFlow Datasets ------------------------------------------------------------------------------------


def test_the_sets_of_tensorflow_datasets_have_these_corruptions():
    for name, other in sources._TFDS_NAMES.items():
        configs = {config.name for config in tfds.builder_cls(name).BUILDER_CONFIGS}
        for corruption in (*corruptions.STANDARD, *corruptions.EXTRA):
            assert f"{other.get(corruption, corruption)}_5" in configs


def test_cifar_10_c_of_tensorflow_datasets(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", lambda *args, **kwargs: io.BytesIO())
    model = athe_tf.victim(lambda x: tf.one_hot(tf.zeros(tf.shape(x)[0], tf.int32), 10), num_classes=10)
    source = sources.Published("cifar10_corrupted", tmp_path, count=6)
    with tfds.testing.mock_data(num_examples=8):
        (x, y), (_, rest) = source.batches("glass_blur", 2, 4)
        found = evaluate_corruptions(
            model,
            np.zeros([6, 32, 32, 3]),
            np.zeros(6, int),
            source="cifar10_corrupted",
            corruptions=["elastic_transform"],
            severities=[1],
            data_dir=tmp_path,
        )
    assert x.shape == (4, 32, 32, 3) and x.dtype == np.float32 and len(y) + len(rest) == 6
    assert found["examples"] == 6 and found["protocol"] == "CIFAR-10-C as published"


@pytest.mark.parametrize(
    "size, protocol",
    [
        (224, "224 x 224 pixels as they are, without resizing (Hendrycks and Dietterich)"),
        (128, "224 x 224 pixels resized to 128 x 128, as RobustBench does"),
    ],
)
def test_the_protocol_of_imagenet_c_is_named(size, protocol):
    source = sources.open_source("imagenet2012_corrupted", np.zeros([2, size, size, 3]), np.zeros(2))
    assert source.imagenet and source.protocol == protocol and "not the published set" in source.remark


class Always(sources.Source):
    """Every cell has two images, one of them right."""

    imagenet = True
    remark = "two images"

    def batches(self, name, severity, batch_size):
        yield np.zeros([2, 8, 8, 3], np.float32), np.array([0, 1])


@pytest.mark.parametrize("severities", [5, 4])
def test_mce_is_there_for_all_of_imagenet_c_and_only_then(model, monkeypatch, severities):
    monkeypatch.setattr(room, "open_source", lambda *args, **kwargs: Always())
    found = evaluate_corruptions(model, source="imagenet2012_corrupted", severities=range(1, 1 + severities))
    assert found["mca"] == 0.5 and found["remarks"][0] == "two images"
    assert ("mce" in found) == (severities == 5)
    if severities == 5:
        assert found["mce"] == pytest.approx(np.mean([0.5 / error for error in ALEXNET_ERRORS.values()]))
    monkeypatch.setattr(Always, "imagenet", False)
    assert "mce" not in evaluate_corruptions(model, source="generated")


def test_mce_of_alexnet_is_one():
    assert corruption_error(
        {name: [1 - error] * 5 for name, error in ALEXNET_ERRORS.items()}
    ) == pytest.approx(1)
    assert set(ALEXNET_ERRORS) == set(corruptions.STANDARD)
    # The row of AlexNet in the table of Hendrycks and Dietterich, in %.
    published = [88.6, 89.4, 92.3, 82.0, 82.6, 78.6, 79.8, 86.7, 82.7, 81.9, 56.5, 85.3, 64.6, 71.8, 60.7]
    errors = [100 * ALEXNET_ERRORS[name] for name in corruptions.STANDARD]
    np.testing.assert_allclose(errors, published, atol=0.06)


def test_mce_is_the_mean_of_ratios_and_not_the_ratio_of_means():
    accuracy = {name: [1.0] * 5 for name in corruptions.STANDARD}
    accuracy["fog"] = [1.0, 0.9, 0.8, 0.7, 0.6]
    assert corruption_error(accuracy) == pytest.approx(0.2 / 0.819324 / 15)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"corruptions": ["frog"]}, r"Unknown corruption 'frog'. Did you mean 'fog'\?"),
        ({"corruptions": []}, r"There are no corruptions"),
        ({"severities": []}, r"There are no severities"),
        ({"severities": [1, 6]}, r"Expected an integer from 1 to 5. Received: severity=6"),
        (
            {"source": "cifar10_corupted"},
            r"Unknown source of corruptions 'cifar10_corupted'. Expected 'gener",
        ),
        ({"source": None}, r"The source of corruptions is a string.*Received: source=None"),
        ({}, r"Generated corruptions need `images` and `labels`"),
    ],
)
def test_arguments_that_cannot_work_are_refused(model, arguments, message):
    with pytest.raises(InputError, match=message):
        evaluate_corruptions(model, **arguments)


def test_the_report_names_the_protocol_and_what_to_know():
    found = {
        "generated": False,
        "mca": 0.5,
        "protocol": "224 x 224 pixels as they are",
        "remarks": ["Note this."],
    }
    assert summary(found) == (
        "Mean corruption accuracy (mCA) 50.00%. These are the published images. "
        "Measured on 224 x 224 pixels as they are. Note this."
    )


def test_the_seed_of_generated_corruptions_is_used():
    images, labels = np.full([3, 8, 8, 1], 128, np.uint8), np.arange(3)

    def noisy(seed, batch_size=3):
        source = sources.open_source("generated", images, labels, seed=seed)
        return np.concatenate([x for x, _ in source.batches("gaussian_noise", 2, batch_size)])

    np.testing.assert_array_equal(
        noisy(1), corruptions.corrupt(images, "gaussian_noise", 2, seed=1) / np.float32(255)
    )
    np.testing.assert_array_equal(noisy(1), noisy(1, batch_size=2))
    assert (noisy(1) != noisy(0)).any()
