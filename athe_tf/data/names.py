"""The names of data sets and augmentations, checked without TensorFlow."""

import pathlib
import re

from athe_tf.data import folder_layout, npz
from athe_tf.utils.errors import InputError
from athe_tf.utils.registry import Registry, did_you_mean

# Popular sets of TensorFlow Datasets, to report a typo at once. `load` accepts all others too.
_GRAY = ("emnist", "fashion_mnist", "kmnist", "mnist", "mnist_corrupted")
_SMALL = ("cifar10", "cifar100", "cifar10_1", "cifar10_corrupted", "eurosat", "stl10", "svhn_cropped")
_IMAGENET = ("imagenet2012", "imagenet_resized", "imagenette")
_IMAGENET_TESTS = ("imagenet2012_corrupted", "imagenet_a", "imagenet_r", "imagenet_v2")
_PHOTOGRAPHS = ("beans", "caltech101", "cats_vs_dogs", "tf_flowers")
_FINE_GRAINED = ("cars196", "food101", "oxford_flowers102", "oxford_iiit_pet", "stanford_dogs")
WELL_KNOWN = tuple(sorted(_GRAY + _SMALL + _IMAGENET + _IMAGENET_TESTS + _PHOTOGRAPHS + _FINE_GRAINED))

LOCAL = ("digits", "npz:PATH", "folder:PATH")

# name, name/config, name:version, name/config:version; and after each of them :split
_TFDS_NAME = re.compile(
    r"(?P<set>[a-z][a-z0-9_]*(/[^/:\s]+)?(:(\d+|\*)(\.(\d+|\*)){0,2})?)(:(?P<split>[A-Za-z_]\w*(\[[^\]]*\])?))?"
)


#: Augmentations that crop the original of an image, so that it should not be resized before.
CROPS_ORIGINALS = ("random_resized_crop", "random_resized_crop_flip")
#: Augmentations that treat the images of a batch alike.
BATCHWISE = ("batch_crop_flip",)
_NAMES = ("flip", "none", "pad_crop", "pad_crop_flip", "reflect_crop_flip", *BATCHWISE, *CROPS_ORIGINALS)

AUGMENTATIONS = Registry("augmentation", __package__, {name: f"augment:{name}" for name in _NAMES})


def check_name(name: str, *, data_dir: str | pathlib.Path | None = None) -> None:
    """Raises `InputError` if no data set can have this name, without starting TensorFlow.

    The file of `npz:PATH` must exist and have the right keys, the folder of `folder:PATH` its splits and
    classes. Only `load` can tell whether TensorFlow Datasets has a name; here, a name is refused if it is
    malformed or one typo away from a popular one.

    Example:

    >>> check_name("cifra10")
    Traceback (most recent call last):
        ...
    athe_tf.utils.errors.InputError: Unknown data set 'cifra10'. Did you mean 'cifar10'? Available: ...

    Args:
        name: The name, as for `load`.
        data_dir: A set with a folder in here is accepted, whatever its name.
    """
    if not isinstance(name, str):
        raise InputError(f"The name of a data set is a string. Received: name={name!r}.")
    base = base_name(name)
    if name.startswith("npz:"):
        npz.check_file(name.removeprefix("npz:"))
    elif name.startswith("folder:"):
        folder_layout.check_folder(name.removeprefix("folder:"))
    elif not _TFDS_NAME.fullmatch(name):
        raise unknown_data_set(name)
    elif name == "digits" or base in WELL_KNOWN or (data_dir and (pathlib.Path(data_dir) / base).is_dir()):
        return
    elif meant := [known for known in ("digits", *WELL_KNOWN) if _one_typo_apart(base, known)]:
        raise unknown_data_set(name, meant)


def base_name(name: str) -> str:
    """`"cifar10"` of `"cifar10/config:3.0.2"`."""
    return re.split("[/:]", name)[0]


def set_and_split(name: str) -> tuple[str, str | None]:
    """`("cifar10:3.0.2", "train[:100]")` of `"cifar10:3.0.2:train[:100]"`, a set and which part is tested."""
    found = _TFDS_NAME.fullmatch(name)
    return (found["set"], found["split"]) if found else (name, None)


def in_memory_only(name: str) -> bool:
    """Whether a data set is an array in memory, and not files that can be read one at a time."""
    return name == "digits" or name.startswith("npz:")


def unknown_data_set(name: str, available=("digits", *WELL_KNOWN)) -> InputError:
    """The error for an unknown data set, with the most similar name of `available`."""
    # TFDS names are lower snake case: 'CIFAR-10' is cifar10.
    plain = re.sub(r"[^a-z0-9_]", "", base_name(name).lower())
    hint = did_you_mean(plain, available)
    return InputError(
        f"Unknown data set '{name}'.{hint} Available: {', '.join((*LOCAL, *WELL_KNOWN))}, "
        "and every image classification set of TensorFlow Datasets."
    )


def _one_typo_apart(a: str, b: str) -> bool:
    """Whether changing, adding, dropping or swapping one letter of `a` gives `b`.

    Stricter than difflib's ratio, by which existing sets such as `imagenet2012_real` are near popular ones.
    """
    if len(a) > len(b):
        a, b = b, a
    start = next((i for i in range(len(a)) if a[i] != b[i]), len(a))
    if len(a) < len(b):
        return a[start:] == b[start + 1 :]
    swapped = a[start : start + 2] == b[start : start + 2][::-1]
    return a[start + 1 :] == b[start + 1 :] or (swapped and a[start + 2 :] == b[start + 2 :])
