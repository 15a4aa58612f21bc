"""What the packages share: errors, files, numbers as text, random numbers, registries, Keras internals."""
