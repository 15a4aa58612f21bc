from . import corruptions
from .augment import RandomResizedCrop
from .corruptions.apply import corrupt
from .folder import FileSet
from .images import ImageSet, ImageSource
from .loading import load
from .mapped import MappedSet
from .mixed import MixedSet, with_extra
from .names import AUGMENTATIONS
from .splits import Splits
from .streamed import Files, StreamedSet

__all__ = [
    "AUGMENTATIONS",
    "FileSet",
    "Files",
    "ImageSet",
    "ImageSource",
    "MappedSet",
    "MixedSet",
    "RandomResizedCrop",
    "Splits",
    "StreamedSet",
    "corrupt",
    "corruptions",
    "load",
    "with_extra",
]
