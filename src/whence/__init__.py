"""whence: which words a text model's decision rests on, at which layer that was settled, and how far to believe it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from whence.attention.audit import audit_attention
    from whence.attention.audit_record import AttentionAudit
    from whence.citing.citations import Citations
    from whence.citing.cite import cite
    from whence.comparison import Comparison, compare
    from whence.corpus.corpus import Corpus
    from whence.corpus.run import run
    from whence.engine.play import hiding_game, revealing_game
    from whence.engine.result import GameResult
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
    from whence.learned.diffmask import DiffMask
    from whence.learned.shapley import ShapleyProbes
    from whence.lens import Lens, decode_layers
    from whence.methods import METHODS
    from whence.methods.explain import explain
    from whence.methods.presets import PRESETS
    from whence.methods.question import Method, Question, Scores
    from whence.models.inputs import WordTokenizer
    from whence.models.layered import LayeredModel
    from whence.models.loading import load
    from whence.scoreboard.board import Scoreboard
    from whence.scoreboard.evaluate import evaluate
    from whence.targets import Contrast, Label, Span

# Names load when they are first used, so that `whence --help` need not wait for torch.
_HOME = {
    "whence.attention.audit": ("audit_attention",),
    "whence.attention.audit_record": ("AttentionAudit",),
    "whence.citing.citations": ("Citations",),
    "whence.citing.cite": ("cite",),
    "whence.comparison": ("Comparison", "compare"),
    "whence.corpus.corpus": ("Corpus",),
    "whence.corpus.run": ("run",),
    "whence.learned.diffmask": ("DiffMask",),
    "whence.learned.shapley": ("ShapleyProbes",),
    "whence.errors": (
        "FileError", "InputError", "ModelError", "NonFiniteError", "UnknownArchitectureError", "UnknownNameError",
        "UsageError", "WhenceError", "WhenceWarning",
    ),
    "whence.explanation": ("Explanation", "Layer", "Meaning", "Token", "Word"),
    "whence.engine.play": ("hiding_game", "revealing_game"),
    "whence.engine.result": ("GameResult",),
    "whence.lens": ("Lens", "decode_layers"),
    "whence.methods": ("METHODS",),
    "whence.methods.explain": ("explain",),
    "whence.methods.presets": ("PRESETS",),
    "whence.methods.question": ("Method", "Question", "Scores"),
    "whence.models.inputs": ("WordTokenizer",),
    "whence.models.layered": ("LayeredModel",),
    "whence.models.loading": ("load",),
    "whence.scoreboard.board": ("Scoreboard",),
    "whence.scoreboard.evaluate": ("evaluate",),
    "whence.targets": ("Contrast", "Label", "Span"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
# Taken back: what a method is written with, but no user holds.
_OLD = {
    "Encoding": "whence.models.inputs", "Inputs": "whence.models.inputs", "States": "whence.models.layered",
}  # fmt: skip

__all__ = [
    "METHODS",
    "PRESETS",
    "AttentionAudit",
    "Citations",
    "Comparison",
    "Contrast",
    "Corpus",
    "DiffMask",
    "Explanation",
    "FileError",
    "GameResult",
    "InputError",
    "Label",
    "Layer",
    "LayeredModel",
    "Lens",
    "Meaning",
    "Method",
    "ModelError",
    "NonFiniteError",
    "Question",
    "Scoreboard",
    "Scores",
    "ShapleyProbes",
    "Span",
    "Token",
    "UnknownArchitectureError",
    "UnknownNameError",
    "UsageError",
    "WhenceError",
    "WhenceWarning",
    "Word",
    "WordTokenizer",
    "audit_attention",
    "cite",
    "compare",
    "decode_layers",
    "evaluate",
    "explain",
    "hiding_game",
    "load",
    "revealing_game",
    "run",
]


if not TYPE_CHECKING:  # of which type checkers would conclude that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("whence")
        if name in _OLD:
            from whence.errors import warn_of_old_name

            warn_of_old_name(f"whence.{name}", f"{_OLD[name]}.{name}")
            return getattr(import_module(_OLD[name]), name)
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'whence' has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
