"""Trained probes, as far as explaining needs them: their networks, the folder that holds them, and whose they are."""
