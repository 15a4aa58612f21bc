"""Keras layers: the hypersphere head, batch normalization with modes for attacks, the head of an ensemble."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
