"""A language model small enough to train while you wait: it has read who lives where, and answers questions about it.

python examples/tiny_language_model.py FOLDER

It stands in for a real one in the guides, the notebooks and their tests, so that nothing has to be downloaded.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NAMES = ["Marie", "Paul", "Anna", "Omar", "Ines", "Karl", "Yuki", "Lena"]
CITIES = ["Lyon", "Berlin", "Rome", "Cairo", "Porto", "Oslo", "Kyoto", "Graz"]
ASIDES = ["It rains today.", "The shop is closed.", "Tea is on the table."]
STEPS, BATCH, LEARNING_RATE = 700, 48, 3e-3
END = "<end>"
CHAT = "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}Answer:"


def story(draw: random.Random) -> tuple[str, str]:
    """A prompt, in the words of `whence.cite`, and the right answer to it."""
    names, cities = draw.sample(NAMES, 4), draw.sample(CITIES, 4)
    facts = [f"{name} lives in {city}." for name, city in zip(names, cities, strict=True)][: draw.randint(2, 4)]
    asked = draw.sample(range(len(facts)), draw.randint(1, 2))
    sentences = facts + draw.sample(ASIDES, draw.randint(0, 1))
    draw.shuffle(sentences)
    cut = draw.randint(1, len(sentences))
    documents = [" ".join(part) for part in (sentences[:cut], sentences[cut:]) if part]
    who = " and ".join(names[number] for number in asked)
    question = f"Where {'do' if len(asked) > 1 else 'does'} {who} live?"
    context = "\n\n".join(documents)
    answer = "".join(f" {facts[number]}" for number in asked)
    return f"Context: {context}\n\nQuery: {question}\n\nAnswer:", answer


def train(steps: int = STEPS, seed: int = 0) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model and its tokenizer: half a minute on one core."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    tokenizer = _tokenizer(["".join(story(draw)) for _ in range(500)])
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=256, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
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


def accuracy(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n: int = 50, seed: int = 1) -> float:
    """The share of new stories that it answers right to the last word."""
    draw, right = random.Random(seed), 0
    for _ in range(n):
        prompt, answer = story(draw)
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        right += tokenizer.decode(written[0, ids.shape[1] :], skip_special_tokens=True) == answer
    return right / n


def _tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Bytes gathered into words, as GPT-2's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
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
    if len(sys.argv) != 2:
        sys.exit("say where it goes: python examples/tiny_language_model.py FOLDER")
    folder = Path(sys.argv[1])
    model, tokenizer = train()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"{folder}: answers {accuracy(model, tokenizer):.0%} of new questions right")
