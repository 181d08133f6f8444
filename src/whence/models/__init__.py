"""Layered models: what turns a text into states h_0 … h_L and can be resumed from any of them."""
