"""Explainers that are trained once for a model: one loop for all of them, and each in a folder of its own."""
