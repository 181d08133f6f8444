"""`whence.DiffMask` (De Cao et al., 2020): probes, trained once, that explain any text in one forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError, WhenceWarning, warn_of_old_name
from whence.explanation import Explanation, Layer
from whence.learned.checkpoint import free_folder
from whence.learned.diffmask.fitted import Fitted, load, save
from whence.learned.diffmask.learner import LITTLE, DiffMaskLearner
from whence.learned.diffmask.recipes import recipe_for
from whence.learned.diffmask.standing import Standing, last_results, standing
from whence.learned.diffmask.validation import LayerResult, validate
from whence.learned.schedule import Pace
from whence.learned.texts import gather, several
from whence.learned.training import Training
from whence.methods.explain import explain
from whence.methods.options import at_least
from whence.models.batching import Asked, Text, batches, encode, usual_batch_tokens
from whence.models.inputs import Encoding, Ids, Inputs, Messages
from whence.models.layered import LayeredModel, Layers, States
from whence.models.responses import MAX_NEW_TOKENS, UNASKED, Unasked, asked_view
from whence.probes.diffmask import KINDS, Kind, ModelProbes, Probes, embedded_folder
from whence.probes.folder import digest
from whence.probes.hub import push
from whence.probes.shapley import layers_to_read
from whence.progress import Progress

if TYPE_CHECKING:
    from jaxtyping import Float


class DiffMask:
    """Probes for one model: which inputs (or hidden states) it can do without, as each layer tells.

    >>> import whence
    >>> probes = whence.DiffMask.embedded("sentiment", kind="input")
    >>> explanation = probes.explain(whence.load(), "not the worst film of the year")
    >>> explanation.layers[0], explanation.cost.forwards
    ('embeddings', 1)

    Args:
        kind: "input" masks words by what each layer knows (cumulative: what is dropped stays dropped); "hidden" masks
            each layer's own states, and so tells where the decision is stored.
        recipe: "whence", "sparing" (for a deep model on few cores), "released" or "paper": how they are trained, see
            `whence.learned.diffmask.recipes`.
        changes: settings of the recipe to be changed, such as margin=0.05 or steps=10_000.
    """

    def __init__(self, kind: Kind = "input", recipe: str = "whence", **changes: Any) -> None:
        if kind not in KINDS:
            raise UnknownNameError("kind", kind, KINDS)
        self.kind: Kind = kind
        self.recipe = recipe_for(recipe, kind).changed(**changes)
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
        patience: int | None = 5,
        validations: int = 20,
        batch_tokens: int | None = None,
        progress: Progress = True,
        watch: Callable[[Standing], None] | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
    ) -> DiffMask:
        """Train the probes; several processes (of `accelerate launch` or `torchrun`) share the work.

        Args:
            model: what `whence.load` gives; it is not changed.
            texts: texts (or pairs) like those to be explained; labels are not needed.
            responses: what a decoder wrote after each text, as texts or as token ids; None: it writes them now. The
                probes then explain responses; of `held_out`, a pair is a prompt with its response. Unless responses are
                asked for, probes explain a text's next token; chats are always answered.
            held_out: texts to validate on; by default a tenth of the texts, at most 512.
            folder: where to save. A run that was killed goes on from the checkpoint there, to the same probes; a
                finished one is not overwritten.
            seed: makes the run repeatable.
            patience: validations without progress after which the run cools down and ends; None: never early.
            validations: how often to validate in all.
            batch_tokens: tokens a forward pass holds at most outside the training steps.
            progress: True shows a bar where standard error is a terminal, False nothing; a function is called with
                (step, done, in all).
            watch: called after each training step with how it goes, see `whence.learned.diffmask.standing.Standing`.
            max_new_tokens: how much the model writes at most, where it writes the responses.
        """
        recipe = self.recipe
        pace = Pace(
            recipe.steps, recipe.batch_size, recipe.warm_up, recipe.cool_down, validations, patience, seed,
            recipe.minutes,
        )  # fmt: skip
        if batch_tokens is not None:
            at_least("batch_tokens", batch_tokens, 1)
        path = None if folder is None else free_folder(Path(folder))
        given = several(texts, "texts")
        model = asked_view(model, given, responses)
        gathered = gather(model, given, held_out, seed, responses, max_new_tokens)
        tokens_at_once = batch_tokens or usual_batch_tokens(model)
        with torch.inference_mode(False):
            probes = self._new_probes(_widths(model, gathered.training[0], recipe.layers), seed).to(model.device)
            learner = DiffMaskLearner(model, probes, recipe, tokens_at_once)
            training = Training(model, learner, gathered, pace, tokens_at_once)
            training.run_watched(path, progress, watch, lambda: standing(training, learner))
        self.fitted_ = fitted = Fitted(
            trained=ModelProbes(probes.requires_grad_(False).eval(), recipe.special, training.owner),
            recipe=recipe,
            seed=seed,
            n_texts=len(gathered.training),
            results=tuple(last_results(training)),
            history=tuple(training.history),
            margin=recipe.margin * learner.scale,
            seconds=training.seconds,
            whence_version=version("whence"),
        )
        training.finish(path, self.save)
        if max(result.masked for result in fitted.results) < LITTLE:
            told = f"nothing learned: at every layer less than {LITTLE:.0%} of the tokens are dropped"
            told += f" after {training.step:,} steps; train for more, or allow a larger margin"
            warnings.warn(told, WhenceWarning, stacklevel=2)
        return self

    @overload
    def explain(self, model: LayeredModel, texts: Text, **settings: Any) -> Explanation: ...
    @overload
    def explain(self, model: LayeredModel, texts: Iterable[Text], **settings: Any) -> list[Explanation]: ...
    def explain(
        self, model: LayeredModel, texts: Text | Iterable[Text], **settings: Any
    ) -> Explanation | list[Explanation]:
        """Keep probabilities of every token at every layer that has probes, from one pass; see `whence.explain`."""
        layers = self._fitted().probes.layers
        return explain(model, texts, "diffmask", probes=self, **{"layers": layers, **settings})

    def validate(
        self, model: LayeredModel, texts: Sequence[Text], *, batch_tokens: int | None = None
    ) -> list[LayerResult]:
        """How much is masked at each layer, and how often the model then still says the same."""
        fitted = self._fitted()
        fitted.trained.owner.check(model)
        encodings = [encode(model, text, index) for index, text in enumerate(texts)]
        budget = batch_tokens or usual_batch_tokens(model)
        with model.held(), torch.inference_mode(False):
            grouped = [[encodings[index] for index in batch] for batch in batches(model, encodings, budget)]
            return validate(model, fitted.probes.to(model.device), grouped, special=fitted.recipe.special)

    def keep_probabilities(
        self, model: LayeredModel, inputs: Inputs, states: States, layers: Sequence[Layer]
    ) -> Float[Tensor, "batch layer token"]:
        """The probability that a token must be kept, at each layer asked for; 1 for those that are never masked."""
        return self._fitted().trained.keep_probabilities(model, inputs, states, layers)

    def content_key(self) -> str:
        """A digest of what these probes are: their kind, their recipe and every number of their weights."""
        fitted = self._fitted()
        return digest([self.kind, fitted.recipe.told()], fitted.probes.state_dict())

    def layers(self, model: LayeredModel) -> Layers:
        """Where probes look: the words and every layer, or those that the recipe left."""
        return self._fitted().trained.layers(model)

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config.json, model.safetensors and a card; `dtype` stores the weights in less precision."""
        save(self._fitted(), Path(folder), dtype)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Put what `save` writes on the Hugging Face hub, under "user/name"; gives the address of the commit."""
        return push(self.save, repo_id, private, token)

    @classmethod
    def load(cls, folder: str | Path) -> DiffMask:
        """The probes that `save` wrote, from a folder or from the hub, as "user/name" or "user/name@revision".

        Of a hub folder only the config and the weights are fetched; there is no code in either, and the probes refuse
        any model but the one they were trained for.
        """
        fitted = load(Path(folder))
        found = cls(fitted.probes.kind)
        found.recipe, found.fitted_ = fitted.recipe, fitted
        return found

    @classmethod
    def embedded(cls, name: str = "sentiment", kind: Kind = "input") -> DiffMask:
        """The probes of an embedded model."""
        return cls.load(embedded_folder(name, kind))

    @classmethod
    def shipped(cls, name: str = "sentiment", kind: Kind = "input") -> DiffMask:
        warn_of_old_name("DiffMask.shipped", "DiffMask.embedded")
        return cls.embedded(name, kind)

    def _new_probes(self, widths: dict[Layer, int], seed: int) -> Probes:
        n_hidden = self.recipe.width or max(32, list(widths.values())[-1] // 4)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return Probes(self.kind, self.recipe.probe, widths, n_hidden, self.recipe.start)

    def _fitted(self) -> Fitted:
        if self.fitted_ is None:
            raise UsageError("these probes are not trained yet", "call .fit(model, texts) first, or DiffMask.load")
        return self.fitted_

    def __repr__(self) -> str:
        if self.fitted_ is None:
            return f"<DiffMask {self.kind}, not trained>"
        return f"<DiffMask {self.kind} of {self.fitted_.model.id}>"


def _widths(model: LayeredModel, encoding: Encoding, most: int | None) -> dict[Layer, int]:
    states = model.states(model.collate([encoding]))
    layers = layers_to_read(model, model.n_layers + 2 if most is None else most)
    return {layer: states.at(layer).shape[-1] for layer in layers}
