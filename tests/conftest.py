"""What every test needs: no network, one thread a process, and the tiny models."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of a Hugging Face package
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import shape_checks

shape_checks.install("whence")  # before whence itself is imported

import pytest
import tiny_models
import torch
from hypothesis import settings

import whence

settings.register_profile("whence", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("whence")

torch.set_num_threads(1)  # tiny matrices: more threads only get in each other's way


@pytest.fixture
def bert() -> whence.LayeredModel:
    """A tiny classifier of its own for this test, free to be spoilt, with the head of a tiny language model."""
    head = tiny_models.tiny("bert", "masked_lm")
    return whence.load(tiny_models.build("bert"), tiny_models.wordpiece(), head=head)
