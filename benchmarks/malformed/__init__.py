"""Malformed files of every kind that the programs read."""
