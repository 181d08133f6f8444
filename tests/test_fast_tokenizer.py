"""What a fast tokenizer reads by itself is what it reads when it is called, whatever it was asked before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tiny_models
from transformers import PreTrainedTokenizerFast

import whence
from whence.models import fast_tokenizer
from whence.models.fast_tokenizer import FastTokenizer

TEXTS = ["a witty film", "  Not\tbad, 👍🏽 [MASK] <mask>!", "日本の film", "\u200b", "far too long " * 40]
PAIRS = ["of what?", "", "x", "the film", "a pair"]


@pytest.mark.parametrize("name", tiny_models.TOKENIZERS)
@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_it_reads_what_the_tokenizer_reads(name: str, pairs: list[str] | None, split: bool) -> None:
    tokenizer: Any = copy.deepcopy(tiny_models.TOKENIZERS[name]())  # others read with it too
    tokenizer.split_special_tokens = split
    assert FastTokenizer.reads(tokenizer)
    usual = tokenizer(TEXTS, pairs, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    if tokenizer.pad_token is not None:  # it remembers both
        tokenizer(TEXTS, padding="max_length", truncation=True, max_length=8)
    found = FastTokenizer(tokenizer)(TEXTS, pairs)
    assert found == {column: usual[column] for column in usual if column != "attention_mask"}
    for row in range(len(TEXTS)):
        assert found.sequence_ids(row) == usual.sequence_ids(row)


def test_a_tokenizer_that_changes_its_texts_is_called() -> None:
    class Shouting(PreTrainedTokenizerFast):
        def _encode_plus(self, text: Any, **more: Any) -> Any:  # type: ignore[override]
            return super()._encode_plus([each.upper() for each in text], **more)

    model = tiny_models.tiny("gpt2")
    plain: Any = model.tokenizer
    shouting = Shouting(tokenizer_object=copy.deepcopy(plain.tokenizer.backend_tokenizer))
    assert not FastTokenizer.reads(shouting)
    found = whence.load(model.module, shouting).encode("a film")
    assert found.ids == model.encode("A FILM").ids != model.encode("a film").ids


def test_a_tokenizer_of_a_version_that_is_put_together_otherwise_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer: Any = tiny_models.wordpiece()
    assert FastTokenizer.reads(tokenizer)
    monkeypatch.setattr(fast_tokenizer, "_PUT_AROUND", ("__call__", "what_another_version_has"))
    assert not FastTokenizer.reads(tokenizer)
