"""Slips in `athe_tf/data/`."""

from benchmarks.mutation.slip import Slip

HERE = "athe_tf/data"
GOLDEN = ("tests/data/test_golden.py",)
CORRUPTIONS = "tests/data/test_corruptions.py"
IMAGES = "tests/data/test_images.py"
IMAGENET = "tests/data/test_imagenet.py"
MIXED = ("tests/data/test_mixed.py",)
NPZ = ("tests/data/test_npz.py",)

SLIPS = (
    Slip(
        "D1",
        f"{HERE}/splits.py",
        "np.random.RandomState(0).permutation(len(images))",
        "np.random.RandomState(1).permutation(len(images))",
        GOLDEN,
    ),
    Slip(
        "D2",
        f"{HERE}/splits.py",
        "held, kept = np.sort(order[:size]), np.sort(order[size:])",
        "held, kept = np.sort(order[-size:]), np.sort(order[:-size])",
        GOLDEN,
    ),
    Slip(
        "D3",
        f"{HERE}/splits.py",
        "min(1000, max(1, train_size // 10), train_size - 1)",
        "min(1000, max(1, train_size // 5), train_size - 1)",
        GOLDEN,
    ),
    Slip(
        "D4", f"{HERE}/splits.py", "validation_size < train_size,", "validation_size <= train_size,", GOLDEN
    ),
    Slip(
        "D5",
        f"{HERE}/corruptions/draws.py",
        "rng.fold(seed, zlib.crc32(name.encode()), severity)",
        "rng.fold(seed, zlib.crc32(name.encode()))",
        GOLDEN,
    ),
    Slip("D6", f"{HERE}/corruptions/draws.py", "self._calls += 1", "self._calls += 0", GOLDEN),
    Slip("D7", f"{HERE}/corruptions/draws.py", "rng.fold(seed, zlib", "rng.fold(0, zlib", GOLDEN),
    Slip("D8", f"{HERE}/corruptions/settings.py", "[severity - 1]", "[severity - 2]", GOLDEN),
    Slip(
        "D9",
        f"{HERE}/corruptions/settings.py",
        "LARGE_FROM = 96",
        "LARGE_FROM = 95",
        (f"{CORRUPTIONS}::test_large_images_take_the_constants_of_imagenet",),
    ),
    Slip(
        "D10",
        f"{HERE}/corruptions/settings.py",
        '"contrast": (0.4, 0.3, 0.2, 0.1, 0.05)',
        '"contrast": (0.4, 0.3, 0.2, 0.15, 0.05)',
        GOLDEN,
    ),
    Slip(
        "D11",
        f"{HERE}/corruptions/apply.py",
        "np.rint(np.clip(images, 0, 1) * 255)",
        "np.floor(np.clip(images, 0, 1) * 255)",
        GOLDEN,
    ),
    Slip(
        "D12",
        f"{HERE}/corruptions/apply.py",
        "Draws(seed, name, severity, ids[part])",
        "Draws(seed, name, severity, ids[: len(ids[part])])",
        (f"{CORRUPTIONS}::test_memory_is_used_a_chunk_at_a_time",),
    ),
    Slip(
        "D13",
        f"{HERE}/corruptions/noise.py",
        "place < share / 2, 0",
        "place < share, 0",
        (f"{CORRUPTIONS}::test_impulse_noise_is_half_salt_and_half_pepper",),
    ),
    Slip(
        "D14",
        f"{HERE}/corruptions/digital.py",
        "images.mean(axis=(1, 2), keepdims=True)",
        "images.mean(axis=(1, 2, 3), keepdims=True)",
        (f"{CORRUPTIONS}::test_contrast_keeps_the_mean_of_each_channel",),
    ),
    Slip(
        "D15",
        f"{HERE}/corruptions/blur.py",
        "total / np.float32(len(factors) + 1)",
        "total / np.float32(len(factors))",
        (f"{CORRUPTIONS}::test_zoom_blur_is_the_mean_over_all_factors",),
    ),
    Slip(
        "D16",
        f"{HERE}/corruptions/sources.py",
        "first = (severity - 1) * self.rows",
        "first = severity * self.rows",
        ("tests/evaluation/test_corruptions.py::test_published_files_are_read_severity_by_severity",),
    ),
    Slip(
        "D17",
        f"{HERE}/corruptions/sources.py",
        "seed=self.seed, ids=ids[part]",
        "ids=ids[part]",
        ("tests/evaluation/test_corruptions.py::test_the_seed_of_generated_corruptions_is_used",),
    ),
    Slip(
        "D18",
        f"{HERE}/corruptions/jpeg_folders.py",
        "np.random.RandomState(0)",
        "np.random.RandomState(1)",
        GOLDEN,
    ),
    Slip("D19", f"{HERE}/folder.py", "np.random.RandomState(0)", "np.random.RandomState(1)", GOLDEN),
    Slip(
        "D20",
        f"{HERE}/source.py",
        "np.sort(np.random.RandomState(0).permutation(size)[:count])",
        "np.arange(count)",
        GOLDEN,
    ),
    Slip("D21", f"{HERE}/source.py", "key = fold(seed, epoch)", "key = fold(seed, 0)", GOLDEN),
    Slip(
        "D22",
        f"{HERE}/source.py",
        "first, skipped = divmod(start_step, steps)",
        "first, skipped = start_step // steps, 0",
        (f"{IMAGES}::test_a_stream_started_anywhere_equals_the_uninterrupted_one",),
    ),
    Slip(
        "D23", f"{HERE}/source.py", "batch[index * size : (index + 1) * size]", "batch[index::count]", GOLDEN
    ),
    Slip(
        "D24",
        f"{HERE}/source.py",
        "max(0, epochs * steps - start_step)",
        "epochs * steps",
        (f"{IMAGES}::test_stream_that_starts_after_its_end_is_empty",),
    ),
    Slip("D25", f"{HERE}/augment.py", "_CROP, _FLIP = 1, 2", "_CROP, _FLIP = 2, 1", GOLDEN),
    Slip("D26", f"{HERE}/augment.py", "2 * padding + 1, stream=_CROP", "2 * padding, stream=_CROP", GOLDEN),
    Slip(
        "D27",
        f"{HERE}/augment.py",
        "max(1, height // 8) if",
        "max(1, height // 4) if",
        ("tests/data/test_augment.py::test_default_padding_is_an_eighth_of_the_height",),
    ),
    Slip(
        "D28",
        f"{HERE}/random_resized_crop.py",
        "scale: tuple[float, float] = (0.08, 1.0)",
        "scale: tuple[float, float] = (0.8, 1.0)",
        GOLDEN,
    ),
    Slip(
        "D29",
        f"{HERE}/random_resized_crop.py",
        "tf.sqrt(area / ratio)), tf.round(tf.sqrt(area * ratio))",
        "tf.sqrt(area * ratio)), tf.round(tf.sqrt(area / ratio))",
        GOLDEN,
    ),
    Slip(
        "D30", f"{HERE}/mixed.py", "(self.extra, few, fold(seed, _EXTRA))", "(self.extra, few, seed)", GOLDEN
    ),
    Slip("D31", f"{HERE}/mixed.py", "places = [(index + 0.5) / many", "places = [index / many", MIXED),
    Slip(
        "D32",
        f"{HERE}/resize.py",
        "corner = tf.round(tf.cast(resized - crop_size, tf.float32) / 2)",
        "corner = tf.floor(tf.cast(resized - crop_size, tf.float32) / 2)",
        (f"{IMAGENET}::test_evaluation_resizes_the_shorter_side_and_crops_the_center",),
    ),
    Slip(
        "D33",
        f"{HERE}/resize.py",
        "resampled[0, :, 0, :] + 0.5",
        "resampled[0, :, 0, :]",
        (f"{IMAGENET}::test_resize_is_the_filter_of_pillow",),
    ),
    Slip(
        "D34",
        f"{HERE}/validate.py",
        "low >= 0 and high <= 1",
        "low >= 0 or high <= 1",
        (f"{IMAGES}::test_images_and_labels_are_checked_at_the_door",),
    ),
    Slip("D35", f"{HERE}/validate.py", "most < num_classes,", "most <= num_classes,", NPZ),
    Slip(
        "D36",
        f"{HERE}/images.py",
        "array_digest(self.images, self.labels)",
        "array_digest(self.images)",
        (f"{IMAGES}::test_the_fingerprint_sees_images_and_labels",),
    ),
    Slip(
        "D37",
        f"{HERE}/splits.py",
        "std = np.maximum(np.sqrt(variance), 1 / 255)",
        "std = np.sqrt(variance)",
        GOLDEN,
    ),
    Slip(
        "D38",
        f"{HERE}/tfds.py",
        'f"train[{held}:]", "validation": f"train[:{held}]"',
        'f"train[:-{held}]", "validation": f"train[-{held}:]"',
        ("tests/data/test_tfds.py::test_the_first_streamed_images_are_held_out",),
    ),
    Slip("D39", f"{HERE}/streamed.py", "_FILES, _WINDOW = 0, 3", "_FILES, _WINDOW = 0, 2", GOLDEN),
)
