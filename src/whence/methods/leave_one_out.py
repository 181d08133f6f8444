"""Leave-one-out: take each token away in turn and see what the target loses."""

from __future__ import annotations

from whence.explanation import Meaning
from whence.methods.baselines import Baseline
from whence.methods.occlusion import occlusion
from whence.methods.question import Method, Question, Scores


def leave_one_out(question: Question, *, baseline: Baseline = "auto", special: bool | None = None) -> Scores:
    """f(text) - f(text without the token), the token's state replaced by the baseline (Li et al., 2016).

    Args:
        baseline: what stands in its place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens are taken away too; by default only above the input.
    """
    return occlusion(question, window=1, baseline=baseline, special=special)


METHOD = Method(
    leave_one_out,
    Meaning("leave-one-out", "what the target loses when the token is taken away", signed=True, additive=True),
    needs=("a baseline",),
    cost="1 forward per token and layer",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
