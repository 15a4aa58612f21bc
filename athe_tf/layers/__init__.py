"""Keras layers: the hypersphere head, batch normalisation that can be told what to do, an ensemble's head."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
