"""Attention as an explanation: classifiers with dense or sparse attention for your own texts, and what it is worth.

`train` makes a classifier, `whence.load` a layered model of it, which `whence.explain` and `whence.audit_attention`
read like any other. `word_shares` says what its decision depends on, and `train_adversary` whether it could decide
alike and attend elsewhere. See docs/attention.md.
"""

from whence.attention.adversary import AdversaryRecord, AdversarySettings, measure_adversary, train_adversary
from whence.attention.classifier import AttentionClassifier, ClassifierConfig
from whence.attention.documents import Documents
from whence.attention.training import TrainingRecord, TrainingSettings, accuracy, fit, predict, roc_auc, train
from whence.attention.vocabulary import Vocabulary
from whence.attention.word_shares import word_shares

__all__ = [
    "AdversaryRecord",
    "AdversarySettings",
    "AttentionClassifier",
    "ClassifierConfig",
    "Documents",
    "TrainingRecord",
    "TrainingSettings",
    "Vocabulary",
    "accuracy",
    "fit",
    "measure_adversary",
    "predict",
    "roc_auc",
    "train",
    "train_adversary",
    "word_shares",
]
