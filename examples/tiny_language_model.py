"""A language model small enough to train while you wait: it answers who lives where, eats what and plays what.

python examples/tiny_language_model.py [examples/tiny-language-model]

It stands in for a real one in the guides, the notebooks and their tests, so that nothing has to be downloaded.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NAMES = ["Marie", "Paul", "Anna", "Omar", "Ines", "Karl"]
FACTS = {
    "Where does {} live?": ("{} lives in {}.", ["Lyon", "Berlin", "Rome", "Cairo", "Oslo"]),
    "What does {} eat?": ("{} eats {}.", ["rice", "soup", "bread", "fish", "pears"]),
    "What does {} play?": ("{} plays {}.", ["chess", "golf", "cards", "darts", "piano"]),
}
ASIDE = "It rains today."
STEPS, BATCH, LEARNING_RATE = 400, 32, 4e-3
END = "<end>"
CHAT = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}Answer:"


def story(draw: random.Random) -> tuple[str, str]:
    """A prompt, in the words of `whence.cite`, and the right answer to it."""
    kinds = draw.sample(list(FACTS), draw.randint(1, 3))
    names = draw.sample(NAMES, len(kinds))
    facts = [FACTS[kind][0].format(name, draw.choice(FACTS[kind][1])) for kind, name in zip(kinds, names, strict=True)]
    asked = draw.sample(range(len(kinds)), draw.randint(1, min(2, len(kinds))))
    sentences = facts + draw.sample([ASIDE], draw.randint(0, 1))
    draw.shuffle(sentences)
    cut = draw.randint(1, len(sentences))
    context = "\n\n".join(" ".join(part) for part in (sentences[:cut], sentences[cut:]) if part)
    question = " ".join(kinds[number].format(names[number]) for number in asked)
    answer = "".join(f" {facts[number]}" for number in asked)
    return f"Context: {context}\n\nQuery: {question}\n\nAnswer:", answer


def train(steps: int = STEPS, seed: int = 0) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model and its tokenizer: a minute on one core."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    tokenizer = _tokenizer(["".join(story(draw)) for _ in range(500)])
    end = tokenizer.eos_token_id
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, initializer_range=0.1, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)
    for _ in range(steps):
        stories = [story(draw) for _ in range(BATCH)]
        texts = tokenizer([prompt + answer + END for prompt, answer in stories], padding=True, return_tensors="pt")
        labels = texts.input_ids.clone()
        for row, (prompt, _) in zip(labels, stories, strict=True):
            row[: len(tokenizer(prompt).input_ids)] = -100  # only answers are learnt
        labels[texts.attention_mask == 0] = -100
        loss = model(**texts, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval(), tokenizer


def accuracy(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n: int = 30, seed: int = 1) -> float:
    """The share of new stories that it answers right to the last word."""
    draw, right = random.Random(seed), 0
    writer: Any = model
    for _ in range(n):
        prompt, answer = story(draw)
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        written = writer.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
        right += tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True) == answer
    return right / n


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Bytes gathered into words, as GPT-2's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[END],
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, pad_token=END, padding_side="right", chat_template=CHAT,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "tiny-language-model")
    model, tokenizer = train()
    print(f"{folder}: answers {accuracy(model, tokenizer):.0%} of new questions right")
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
