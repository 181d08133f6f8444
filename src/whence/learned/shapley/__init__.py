"""Amortised Shapley values: probes learn what each token earns, and tell it of a new text from one forward pass."""

from whence.learned.shapley.explainer import ShapleyProbes as ShapleyProbes
