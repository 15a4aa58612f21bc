from . import corruptions
from .augmentations import AUGMENTATIONS
from .corruptions.apply import corrupt
from .extra import with_extra
from .image_files import FileSet
from .images import ImageSet
from .loading import load
from .mixed import MixedSet
from .random_resized_crop import RandomResizedCrop
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
