"""The version, alone in a file so that setup.py can read it without importing anything."""

__version__ = "0.2.0"
