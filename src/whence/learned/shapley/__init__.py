"""Amortised Shapley values: probes that learn what each token earns, so that one forward pass tells it of a new text."""

from whence.learned.shapley.explainer import ShapleyProbes as ShapleyProbes
