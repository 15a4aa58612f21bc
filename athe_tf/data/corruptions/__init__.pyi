from .apply import corrupt
from .names import CORRUPTIONS, EXTRA, GROUPS, SEVERITIES, STANDARD
from .sources import open_source

__all__ = ["CORRUPTIONS", "EXTRA", "GROUPS", "SEVERITIES", "STANDARD", "corrupt", "open_source"]
