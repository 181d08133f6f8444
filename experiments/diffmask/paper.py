"""The numbers of the DiffMask paper (De Cao et al., 2020) and of its released notebooks, beside which ours stand."""

from __future__ import annotations

from typing import Any

# macro-F1 of five-class SST in percent, unmasked and masked, and the share masked
SST_F1: dict[str, Any] = {
    "unmasked": 37.9,
    "input": {"masked_f1": 38.3, "masked": 46.3},
    "hidden": {"masked_f1": 38.9, "masked": 67.6},
}
SST_STABILITY = {"input": 0.0553, "hidden": 0.0302}
ANSWER_KEPT = 0.94  # predictions whose answer span all layers keep

# published steps of training on SST
STEPS = {"released": 40_200, "paper": 6_700}

# read off the plots of the released notebook, layers of 14: hidden states on SST by part of speech and by sentiment
NOTEBOOK_HIDDEN_POS = {
    "[SEP]": 13.0, "[CLS]": 9.0, "ADJ": 7.8, "ADV": 7.7, "VERB": 6.8, "NOUN": 6.7, "PUNCT": 4.2, "PRON": 4.2,
    "DET": 2.1,
}  # fmt: skip
NOTEBOOK_HIDDEN_SENTIMENT = {
    "very negative": 8.6, "negative": 7.0, "neutral": 5.3, "positive": 7.2, "very positive": 9.0,
}  # fmt: skip
SST_ENTRIES = 14
# the same for the inputs of question answering, layers of 26
NOTEBOOK_INPUT_QA_POS = {
    "[CLS]": 21.0, "NOUN": 15.8, "PROPN": 15.2, "VERB": 14.5, "ADP": 14.0, "DET": 13.7, "[SEP]": 5.0, "PUNCT": 4.2,
    "CCONJ": 1.4,
}  # fmt: skip
QA_ENTRIES = 26
