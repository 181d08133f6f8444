"""`whence.ShapleyProbes`: probes, trained once, that give Shapley values of any text in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, overload

import torch

from whence.embedded import shapley_folder
from whence.errors import UnknownNameError, UsageError
from whence.explanation import Explanation, Scale
from whence.learned.checkpoint import free_folder
from whence.learned.schedule import Pace, generator
from whence.learned.shapley.calibration import affordable, calibrated, check, error_scale, familiar
from whence.learned.shapley.fitted import Fitted, load, save
from whence.learned.shapley.learner import ShapleyLearner
from whence.learned.shapley.recipe import RECIPES, Recipe
from whence.learned.texts import Texts, gather, several
from whence.learned.time_limit import AFTERWARDS
from whence.learned.training import Training
from whence.methods.explain import explain
from whence.methods.options import at_least
from whence.models.batching import Asked, Text, usual_batch_tokens
from whence.models.inputs import Encoding, Ids, Messages
from whence.models.layered import LayeredModel
from whence.models.responses import MAX_NEW_TOKENS, UNASKED, Unasked, asked_view
from whence.probes.folder import digest
from whence.probes.hub import push
from whence.probes.shapley import ErrorScale, ModelShares, layers_to_read
from whence.probes.shares import Shares
from whence.progress import Progress

FAMILIAR_TEXTS = 2_000  # of the training, whose mean states tell what is familiar


@dataclass(frozen=True)
class Standing:
    """Where a run stands: means over the last batches of both losses, and the last validation, None until the first."""

    step: int
    steps: int
    seconds: float
    loss: float
    relevance_loss: float
    validation: dict[str, Any] | None


class ShapleyProbes:
    """Probes for one model: each token's fair share of any of its decisions, from one forward pass.

    >>> import whence
    >>> probes = whence.ShapleyProbes.embedded("sentiment")
    >>> explanation = probes.explain(whence.load(), "not the worst film of the year", part="shapley")
    >>> explanation.target.scale
    'probability'

    Args:
        recipe: "whence" (for a GPU), "quick" (for a processor of few cores: within an hour, at a lower quality that the
            fit states) or "sparing" (for a deep decoder there, lower still).
        changes: settings of the recipe to be changed, see `whence.learned.shapley.recipe`, such as units="word" or
            minutes=15.
    """

    def __init__(self, recipe: str = "whence", **changes: Any) -> None:
        if recipe not in RECIPES:
            raise UnknownNameError("recipe of Shapley probes", recipe, RECIPES)
        self.recipe = RECIPES[recipe].changed(**changes)
        self.fitted_: Fitted | None = None

    def fit(
        self,
        model: LayeredModel,
        texts: Iterable[Asked | Messages],
        *,
        responses: Sequence[str | Ids] | Unasked | None = UNASKED,
        held_out: Iterable[Asked] | None = None,
        folder: str | Path | None = None,
        seed: int = 0,
        validations: int = 20,
        batch_tokens: int | None = None,
        progress: Progress = True,
        watch: Callable[[Standing], None] | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> ShapleyProbes:
        """Train probes on texts; labels are not needed. The model is left as it was.

        Args:
            texts: some thousands, of the kind that will be explained.
            responses: what a decoder wrote after each text, as texts or as token ids; None: it writes them now. The
                probes then explain responses; of `held_out`, a pair is a prompt with its response. Unless responses are
                asked for, probes explain a text's next token; chats are always answered.
            held_out: texts to validate and calibrate on; by default a tenth of the texts, at most 512.
            folder: where to save. A run that was killed goes on from the checkpoint there, to the same probes; a
                finished one is not overwritten.
            seed: makes the run repeatable, unless the recipe limits its minutes.
            validations: how often to validate in all; a run with a time limit goes by the clock.
            batch_tokens: tokens a forward pass of the model holds at most.
            progress: True shows a bar where standard error is a terminal, False nothing; a function is called with
                (step, done, in all).
            watch: called after each training step with how it goes, see `Standing`.
            max_new_tokens: how much the model writes at most, where it writes the responses.
        """
        recipe = self.recipe
        if batch_tokens is not None:
            at_least("batch_tokens", batch_tokens, 1)
        path = None if folder is None else free_folder(Path(folder))
        given = several(texts, "texts")
        model = asked_view(model, given, responses)
        gathered = gather(model, given, held_out, seed, responses, max_new_tokens)
        scale: Scale = recipe.scale or _usual_scale(model)
        budget = batch_tokens or usual_batch_tokens(model)
        pace = Pace(
            recipe.steps, _texts_per_step(gathered, recipe), min(recipe.warm_up, recipe.steps), 1.0, validations, None,
            seed, recipe.minutes,
        )  # fmt: skip
        with torch.inference_mode(False):
            network = _new_network(model, gathered.training[0], recipe, seed).to(model.device)
            learner = ShapleyLearner(model, network, recipe, scale, budget)
            training = Training(model, learner, gathered, pace, budget)
            training.run_watched(path, progress, watch, lambda: _standing(training, learner))
            self.fitted_ = _judged(training, network.requires_grad_(False).eval(), recipe, scale, gathered, budget)
        training.finish(path, self.save)
        return self

    @overload
    def explain(self, model: LayeredModel, texts: Text, **settings: Any) -> Explanation: ...
    @overload
    def explain(self, model: LayeredModel, texts: Iterable[Text], **settings: Any) -> list[Explanation]: ...
    def explain(
        self, model: LayeredModel, texts: Text | Iterable[Text], **settings: Any
    ) -> Explanation | list[Explanation]:
        """Each token's share from one forward pass; see `whence.explain` and `whence.methods.one_pass`."""
        usual = {"scale": self.shares.scale, "part": "shapley" if self.shares.relevance is None else "both"}
        return explain(model, texts, "one_pass", probes=self, **{**usual, **settings})

    @property
    def shares(self) -> ModelShares:
        return self._fitted().shares

    def content_key(self) -> str:
        """A digest of what these probes are: their recipe and every number of their weights."""
        fitted = self._fitted()
        contents = fitted.shares.contents()
        return digest([fitted.recipe.told(), contents.config], contents.weights)

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config.json, model.safetensors and a card; `dtype` (float16, int8) stores weights in less precision."""
        save(self._fitted(), Path(folder), dtype)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Put what `save` writes on the Hugging Face hub, under "user/name"; gives the address of the commit."""
        return push(self.save, repo_id, private, token)

    @classmethod
    def load(cls, folder: str | Path) -> ShapleyProbes:
        """The probes that `save` wrote, from a folder or from the hub, as "user/name" or "user/name@revision".

        Of a hub folder only the config and the weights are fetched; there is no code in either, and the probes refuse
        any model but the one they were trained for.
        """
        found = cls()
        found.fitted_ = load(Path(folder))
        found.recipe = found.fitted_.recipe
        return found

    @classmethod
    def embedded(cls, name: str = "sentiment") -> ShapleyProbes:
        """The probes of an embedded model."""
        return cls.load(shapley_folder(name))

    def _fitted(self) -> Fitted:
        if self.fitted_ is None:
            raise UsageError("these probes are not trained yet", "call .fit(model, texts) first, or ShapleyProbes.load")
        return self.fitted_

    def __repr__(self) -> str:
        if self.fitted_ is None:
            return "<ShapleyProbes, not trained>"
        return f"<ShapleyProbes of {self.fitted_.model.id}>"


def _standing(training: Training, learner: ShapleyLearner) -> Standing:
    loss, relevance_loss = learner.running
    last = training.history[-1] if training.history else None
    return Standing(training.step, training.last_step, training.seconds, loss, relevance_loss, last)


def _texts_per_step(texts: Texts, recipe: Recipe) -> int:
    mean = sum(map(len, texts.training)) / len(texts.training)
    return max(1, round(recipe.step_tokens / mean))


def _usual_scale(model: LayeredModel) -> Scale:
    """What is shared out: a probability, of a response its logarithm, or a plain number."""
    if model.reading.responds:
        return "log_probability"
    return "probability" if model.reading.decides else "logit"


def _new_network(model: LayeredModel, encoding: Encoding, recipe: Recipe, seed: int) -> Shares:
    states = model.states(model.collate([encoding]))
    widths = {layer: states.at(layer).shape[-1] for layer in layers_to_read(model, recipe.layers)}
    reading = model.reading
    n_labels = None if reading.reads_vocabulary else states.logits.shape[-1]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Shares(widths, recipe.width, recipe.blocks, n_labels, by_token=reading.per_token or reading.responds)


def _judged(
    training: Training, network: Shares, recipe: Recipe, scale: Scale, texts: Texts, batch_tokens: int
) -> Fitted:
    """The trained network with the errors that held-out texts show."""
    model, seed = training.model, training.pace.seed
    order = torch.randperm(len(texts.held_out), generator=generator(seed, "checked")).tolist()
    chosen = [texts.held_out[index] for index in order[: recipe.checked_texts]]
    some = torch.randperm(len(texts.training), generator=generator(seed, "familiar"))[:FAMILIAR_TEXTS].tolist()
    with model.held(), torch.inference_mode(False):
        known = familiar(model, [texts.training[index] for index in some], texts.held_out, batch_tokens)
        unset = ErrorScale(0.0, 0.0, 0.0, 0.0, 1.0)
        shares = ModelShares(network, recipe.units, scale, recipe.taught(model.reading), unset, known, training.owner)
        orders = recipe.checked_orders
        if recipe.minutes is not None:
            chosen, orders = affordable(model, shares, chosen, orders, batch_tokens, 60 * recipe.minutes * AFTERWARDS)
        checked = list(check(model, shares, chosen, orders, seed, batch_tokens))
    shuffled = torch.randperm(len(checked), generator=generator(seed, "halves")).tolist()
    half = (len(checked) + 1) // 2
    errors = error_scale([checked[index] for index in shuffled[:half]])
    rest = [checked[index] for index in shuffled[half:]] or checked
    return Fitted(
        shares=replace(shares, errors=errors),
        recipe=recipe,
        seed=seed,
        n_texts=len(texts.training),
        calibration=calibrated(rest, errors, orders),
        history=tuple(training.history),
        seconds=training.seconds,
        whence_version=version("whence"),
    )
