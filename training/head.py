"""How well the masked-LM head reads the input words off each layer of an encoder."""

import torch


@torch.no_grad()
def head_table(encoder, head, tokenizer, texts: list[str], n_texts: int = 300) -> list[dict]:
    """For each layer, the mean probability and the median rank that the head gives to the word piece that stands there.

    Nothing is masked, special tokens are left out, rank 1 is the best. Layer 0 is the embedding output.
    """
    encoder.eval()
    probabilities: dict[int, list[torch.Tensor]] = {}
    ranks: dict[int, list[torch.Tensor]] = {}
    for text in texts[:n_texts]:
        ids = tokenizer(text, truncation=True, max_length=encoder.config.max_position_embeddings)["input_ids"]
        ids = torch.tensor([ids], device=encoder.device)
        truth = ids[0, 1:-1, None]
        for layer, states in enumerate(encoder(input_ids=ids, output_hidden_states=True).hidden_states):
            logits = head(states)[0, 1:-1].float()
            probabilities.setdefault(layer, []).append(logits.softmax(-1).gather(1, truth).flatten())
            ranks.setdefault(layer, []).append((logits > logits.gather(1, truth)).sum(-1) + 1)
    return [
        {
            "layer": layer,
            "mean_probability": round(torch.cat(probabilities[layer]).mean().item(), 4),
            "median_rank": int(torch.cat(ranks[layer]).median().item()),
        }
        for layer in probabilities
    ]
