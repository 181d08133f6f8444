"""whence: which words a text model's decision rests on, at which layer that was settled, and how far to believe it."""

from whence.errors import (
    FileError,
    InputError,
    ModelError,
    NonFiniteError,
    UnknownArchitectureError,
    UnknownNameError,
    UsageError,
    WhenceError,
    WhenceWarning,
)
from whence.explanation import Explanation, Layer, Meaning, Token, Word
from whence.methods import METHODS
from whence.methods.explain import explain
from whence.methods.presets import PRESETS
from whence.methods.question import Method, Question, Scores
from whence.models.inputs import Encoding, Inputs, WordTokenizer
from whence.models.layered import LayeredModel, States
from whence.models.loading import load
from whence.targets import Contrast, Label, Span

__all__ = [
    "METHODS",
    "PRESETS",
    "Contrast",
    "Encoding",
    "Explanation",
    "FileError",
    "InputError",
    "Inputs",
    "Label",
    "Layer",
    "LayeredModel",
    "Meaning",
    "Method",
    "ModelError",
    "NonFiniteError",
    "Question",
    "Scores",
    "Span",
    "States",
    "Token",
    "UnknownArchitectureError",
    "UnknownNameError",
    "UsageError",
    "WhenceError",
    "WhenceWarning",
    "Word",
    "WordTokenizer",
    "explain",
    "load",
]
