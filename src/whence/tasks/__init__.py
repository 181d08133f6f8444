"""The tasks: how each one's output is read. A new task is one file here and one entry below."""

from __future__ import annotations

from whence.tasks.causal_lm import CausalLM
from whence.tasks.classification import Classification
from whence.tasks.masked_lm import MaskedLM
from whence.tasks.question_answering import QuestionAnswering
from whence.tasks.reading import Reading
from whence.tasks.response import Response
from whence.tasks.similarity import Similarity
from whence.tasks.token_classification import TokenClassification

TASKS: dict[str, type[Reading]] = {
    "classification": Classification,
    "question_answering": QuestionAnswering,
    "token_classification": TokenClassification,
    "masked_lm": MaskedLM,
    "causal_lm": CausalLM,
    "response": Response,
    "similarity": Similarity,
}
