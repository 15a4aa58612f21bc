from . import corruptions
from .augment import RandomResizedCrop
from .corruptions.apply import corrupt
from .image_files import FileSet
from .images import ImageSet
from .loading import load
from .mixed import MixedSet, with_extra
from .names import AUGMENTATIONS
from .source import ImageSource
from .splits import Splits
from .streamed import Files, StreamedSet

__all__ = [
    "AUGMENTATIONS",
    "FileSet",
    "Files",
    "ImageSet",
    "ImageSource",
    "MixedSet",
    "RandomResizedCrop",
    "Splits",
    "StreamedSet",
    "corrupt",
    "corruptions",
    "load",
    "with_extra",
]
