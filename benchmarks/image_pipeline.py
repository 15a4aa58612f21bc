"""Images per second and core of ImageNet's input pipeline, beside torchvision's: JPEG files to float batches.

    python -m benchmarks.image_pipeline --images=256 --repeats=5
    python -m benchmarks.image_pipeline --augmentations

With `--augmentations`: what follows the crop and flip of images of CIFAR's shape in memory, beside the
cheapest training step of a small network, FastAT on WRN-10-1. The ratio to the step says how many times as
fast as that step the images are made on the same core.

The process is bound to one core, and its processor time counts, decoding included. torchvision's rows need
`pip install torch torchvision`.
"""

import argparse
import os
import pathlib
import tempfile
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import athe_tf  # noqa: E402  (chooses oneDNN before TensorFlow is imported)

import numpy as np  # noqa: E402  isort: skip
import tensorflow as tf  # noqa: E402  isort: skip
from athe_tf import attacks, models, training  # noqa: E402  isort: skip
from athe_tf.data import FileSet, ImageSet  # noqa: E402  isort: skip
from benchmarks.timing import interleaved, table  # noqa: E402  isort: skip
from tests.models.torch_networks import import_torchvision  # noqa: E402  isort: skip

BATCH = 32
# How often an epoch has each file: the start of a pipeline should count little.
COPIES = 4
CROP, RESIZE = 224, 256


def write_photographs(folder: pathlib.Path, count: int) -> list[str]:
    """JPEG files of about 500 x 375 pixels and 110 kB, as ImageNet's are on average."""
    paths = []
    for index in range(count):
        rng = np.random.RandomState(index)
        size = (375 + index % 5 * 8, 500) if index % 3 else (500, 375 + index % 5 * 8)
        coarse = tf.image.resize(rng.randint(0, 256, [40, 40, 3]), size, "bicubic").numpy()
        image = np.clip(coarse + rng.normal(0, 14, coarse.shape), 0, 255).astype(np.uint8)
        path = folder / "class" / f"{index}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_jpeg(image, quality=90).numpy())
        paths.append(str(path))
    return paths


def ours(paths: list[str]) -> dict:
    """The pipelines of this package."""
    paths = paths * COPIES
    images = FileSet(paths, np.zeros(len(paths), int), (CROP, CROP, 3), 2, CROP, RESIZE)
    train = images.stream(BATCH, seed=0, augmentation="random_resized_crop_flip", epochs=1)
    test = images.batches(BATCH)
    return {"training": lambda: consume(train), "evaluation": lambda: consume(test)}


def torchvision_pipelines(folder: pathlib.Path) -> dict:
    """The same in torchvision, without worker processes; empty if it is not installed."""
    try:
        import torch

        torchvision = import_torchvision()
    except ImportError:
        return {}
    datasets, transforms = torchvision.datasets, torchvision.transforms
    torch.set_num_threads(1)
    train = [transforms.RandomResizedCrop(CROP), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    test = [transforms.Resize(RESIZE), transforms.CenterCrop(CROP), transforms.ToTensor()]

    def loader(steps, shuffle):
        images = datasets.ImageFolder(str(folder), transforms.Compose(steps))
        images = torch.utils.data.ConcatDataset([images] * COPIES)
        return torch.utils.data.DataLoader(images, BATCH, shuffle=shuffle, drop_last=shuffle)

    loaders = {"training": loader(train, True), "evaluation": loader(test, False)}
    return {name: lambda batches=batches: consume(batches) for name, batches in loaders.items()}


def consume(batches) -> None:
    """Makes every batch."""
    for images, _ in batches:
        assert len(images)


# What follows crop and flip, by name.
AUGMENTATIONS: dict[str, dict] = {
    "crop and flip": {},
    "crop and flip again (A/A)": {},
    "CutMix": {"cutmix": 1.0},
    "MixUp or CutMix": {"mixup": 0.8, "cutmix": 1.0},
    "random erasing": {"erasing": 0.25},
    "Cutout": {"cutout": 16},
    "RandAugment": {"randaugment": 9.0},
    "all of timm's recipe": {"randaugment": 9.0, "erasing": 0.25, "mixup": 0.8, "cutmix": 1.0},
}


def augmentations(repeats: int) -> None:
    """Prints the table of `--augmentations`."""
    rng, steps, size = np.random.RandomState(0), 8, 128
    source = ImageSet(
        rng.randint(0, 256, [steps * size, 32, 32, 3]).astype("uint8"), rng.randint(0, 10, steps * size)
    )
    candidates = {}
    for name, options in AUGMENTATIONS.items():
        batches = source.stream(size, seed=0, augmentation="pad_crop_flip", epochs=1, **options)
        candidates[name] = lambda batches=batches: consume(batches)
    best = interleaved(candidates, repeats, warm_up=1, clock=time.process_time)
    attack = attacks.PGD(8 / 255, step_size=10 / 255, steps=1)
    trainer = training.FastAT(models.build("wrn-10-1", 10), attack)
    trainer.compile(training.TorchSGD(0.01))
    x, y = next(iter(source.stream(size, seed=0)))
    step = interleaved(
        {"step": lambda: trainer.train_on_batch(x, y)}, repeats, warm_up=2, clock=time.process_time
    )
    rows = [("images of 32 x 32", "images/s per core", "relative", "ratio to the step")]
    for name, seconds in best.items():
        relative, ratio = best["crop and flip"] / seconds, steps * step["step"] / seconds
        rows.append((name, f"{steps * size / seconds:.0f}", f"{relative:.3f}", f"{ratio:.1f}"))
    rows.append(("a step of FastAT, WRN-10-1", f"{size / step['step']:.0f}", "", ""))
    print(f"athe_tf {athe_tf.__version__}, TensorFlow {tf.__version__}", table(rows), sep="\n")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--augmentations", action="store_true")
    options = parser.parse_args()
    if options.augmentations:
        augmentations(options.repeats)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = write_photographs(folder, options.images)
        print(f"{len(paths)} files of {np.mean([os.path.getsize(path) for path in paths]) / 1000:.0f} kB")
        own, theirs = ours(paths), torchvision_pipelines(folder)
        candidates = {}
        for kind in own:
            candidates |= {f"athe_tf {kind}": own[kind], f"athe_tf {kind} again (A/A)": own[kind]}
            if theirs:
                candidates[f"torchvision {kind}"] = theirs[kind]
        best = interleaved(candidates, options.repeats, warm_up=1, clock=time.process_time)
    rows = [("pipeline", "images/s per core", "relative")]
    for label, seconds in best.items():
        kind = label.split()[1]
        rows.append(
            (label, f"{COPIES * len(paths) / seconds:.0f}", f"{best[f'athe_tf {kind}'] / seconds:.3f}")
        )
    print(f"athe_tf {athe_tf.__version__}, TensorFlow {tf.__version__}", table(rows), sep="\n")


if __name__ == "__main__":
    main()
