"""Texts to work on, with their labels: from files, or well-known sets from a folder or the hub."""

from whence.data.example import Answer, Example, labels_as_ids
from whence.data.known import KNOWN
from whence.data.reading import read

__all__ = ["KNOWN", "Answer", "Example", "labels_as_ids", "read"]
