"""Attention as an explanation: sparse projections, attention classifiers, the audit and the adversary."""
