"""`whence.DiffMask` (De Cao et al., 2020): probes, trained once, that explain any text in one forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor

from whence.errors import InputError, ModelError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import Explanation, Layer
from whence.files import remove_unfinished
from whence.learned import folder as folders
from whence.learned.checkpoint import NAME as CHECKPOINT
from whence.learned.fit import LITTLE, Fit, Progress
from whence.learned.folder import Fitted
from whence.learned.objective import maskable
from whence.learned.probes import KINDS, Kind, Probes
from whence.learned.recipes import recipe_for
from whence.learned.schedule import generator
from whence.learned.validation import LayerResult, validate
from whence.methods.explain import explain
from whence.methods.options import at_least, check_seed
from whence.models.batching import Text, batches, encode, usual_batch_tokens
from whence.models.fingerprint import fingerprint, first_difference, is_changed_on_purpose
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel, Layers, States

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_HELD_OUT = 512
Report = Callable[[Progress], None]


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
        recipe: "whence", "released" or "paper": how they are trained, see `whence.learned.recipes`.
        changes: settings of the recipe to be changed, such as margin=0.05 or steps=10_000.
    """

    def __init__(self, kind: Kind = "input", recipe: str = "whence", **changes: Any) -> None:
        if kind not in KINDS:
            raise UnknownNameError("kind", kind, KINDS)
        self.kind: Kind = kind
        self.recipe = recipe_for(recipe, kind).changed(**changes)
        self.fitted_: Fitted | None = None
        # the weights last found to be the right model's, and how often each had been changed by then
        self._seen: list[tuple[ref[Tensor], int]] = []

    def fit(
        self,
        model: LayeredModel,
        texts: Iterable[Text],
        *,
        held_out: Iterable[Text] | None = None,
        folder: str | Path | None = None,
        seed: int = 0,
        patience: int | None = 5,
        validations: int = 20,
        batch_tokens: int | None = None,
        progress: bool | Report = True,
    ) -> DiffMask:
        """Train the probes; several processes (of `accelerate launch` or `torchrun`) share the work.

        Args:
            model: what `whence.load` gives; it is not changed.
            texts: texts (or pairs) like those to be explained; labels are not needed.
            held_out: texts to validate on; by default a tenth of the texts, at most 512.
            folder: where to save. A run that was killed goes on from the checkpoint there, to the same probes; a
                finished one is not overwritten.
            seed: makes the run repeatable.
            patience: validations without progress after which the run cools down and ends; None: never early.
            validations: how often to validate in all.
            batch_tokens: tokens a forward pass holds at most outside the training steps.
            progress: True shows a bar where standard error is a terminal, False shows nothing; a function is called
                after each step instead.
        """
        path = None if folder is None else folders.free(Path(folder))
        check_seed(seed)
        at_least("validations", validations, 1)
        for name, least in {"patience": patience, "batch_tokens": batch_tokens}.items():
            if least is not None:
                at_least(name, least, 1)
        training = _encoded(model, texts, "texts")
        if held_out is None:
            training, judging = _split(training, seed)
        else:
            judging = _encoded(model, held_out, "held_out")
        if not training or not judging:
            n_texts = len(training) + (len(judging) if held_out is None else 0)
            what = "no held-out text to judge by" if training else f"{n_texts} texts are too few to train on"
            raise InputError(what, "give some hundreds or more")
        n_cut = sum(encoding.cut > 0 for encoding in [*training, *judging])
        if n_cut:
            told = f"truncated: the model does not read {n_cut} of {len(training) + len(judging)} texts to their end"
            warnings.warn(told, WhenceWarning, stacklevel=2)
        widths = _widths(model, training[0])
        n_hidden = self.recipe.width or max(32, widths[model.n_layers] // 4)
        with torch.inference_mode(False):
            run = Fit(
                model, self._new_probes(widths, n_hidden, seed).to(model.device), self.recipe, training,
                sorted(judging, key=len), seed=seed, batch_tokens=batch_tokens or usual_batch_tokens(model),
                validate_every=max(1, self.recipe.steps // validations), patience=patience,
            )  # fmt: skip
            with _reporting(progress, run) as report:
                run.run(path, report)
        self.fitted_ = Fitted(
            probes=run.probes.requires_grad_(False).eval(),
            recipe=self.recipe,
            model=model.record,
            fingerprint=fingerprint(model.module),
            widths=widths,
            n_hidden=n_hidden,
            seed=seed,
            n_texts=len(training),
            results=tuple(run.results()),
            history=tuple(run.history),
            margin=self.recipe.margin * run.scale,
            seconds=run.seconds,
            whence_version=version("whence"),
        )
        if path is not None and run.processes.is_main_process:
            self.save(path)
            (path / CHECKPOINT).unlink(missing_ok=True)
            for name in (CHECKPOINT, *folders.FILES):
                remove_unfinished(path / name)
        run.processes.wait_for_everyone()  # nobody looks for the folder before it is there
        if max(result.masked for result in self.fitted_.results) < LITTLE:
            told = (
                f"nothing learned: at every layer less than {LITTLE:.0%} of the tokens are dropped after {run.step:,}"
            )
            warnings.warn(f"{told} steps; train for more, or allow a larger margin", WhenceWarning, stacklevel=2)
        return self

    def explain(
        self, model: LayeredModel, texts: Text | Iterable[Text], **settings: Any
    ) -> Explanation | list[Explanation]:
        """Keep probabilities of every token at every layer, from one forward pass; see `whence.explain`."""
        return explain(model, texts, "diffmask", probes=self, **settings)

    def validate(
        self, model: LayeredModel, texts: Sequence[Text], *, batch_tokens: int | None = None
    ) -> list[LayerResult]:
        """How much is masked at each layer, and how often the model then still says the same."""
        fitted = self._checked(model)
        encodings = [encode(model, text, place) for place, text in enumerate(texts)]
        budget = batch_tokens or usual_batch_tokens(model)
        with model.held(), torch.inference_mode(False):
            grouped = [[encodings[place] for place in batch] for batch in batches(encodings, budget)]
            return validate(model, self._on(model, fitted), grouped, special=fitted.recipe.special)

    def keep_probabilities(
        self, model: LayeredModel, inputs: Inputs, states: States, layers: Sequence[Layer]
    ) -> Float[Tensor, "batch layer token"]:
        """The probability that a token must be kept, at each layer asked for; 1 for those that are never masked."""
        fitted = self._checked(model)
        probes = self._on(model, fitted)
        known = {layer: states.at(layer).detach() for layer in probes.layers}
        with torch.no_grad():
            keep = probes.log_keep(known, layers).exp().transpose(0, 1)
        return torch.where(maskable(inputs, fitted.recipe.special)[:, None], keep, 1.0)

    def layers(self, model: LayeredModel) -> Layers:
        """Where probes look: the words and every layer."""
        return self._checked(model).probes.layers

    def content_key(self) -> object:
        """What tells these probes from others, wherever they came from: their kind and their weights."""
        fitted = self._fitted()
        return self.kind, fitted.recipe.special, fitted.probes.state_dict()

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write config.json, model.safetensors and a card; `dtype` stores the weights in less precision."""
        folders.save(self._fitted(), Path(folder), dtype)

    @classmethod
    def load(cls, folder: str | Path) -> DiffMask:
        """The probes that `save` wrote."""
        fitted = folders.load(Path(folder))
        found = cls(fitted.probes.kind)
        found.recipe = fitted.recipe
        found.fitted_ = replace(fitted, probes=fitted.probes.requires_grad_(False).eval())
        return found

    @classmethod
    def embedded(cls, name: str = "sentiment", kind: Kind = "input") -> DiffMask:
        """The probes of an embedded model."""
        from whence.embedded import NAMES, probes_folder

        if name not in NAMES:
            raise UnknownNameError("embedded model", name, NAMES)
        if kind not in KINDS:
            raise UnknownNameError("kind", kind, KINDS)
        folder = probes_folder(name, kind)
        if not folder.is_dir():
            raise UsageError(
                f"no {kind} probes came with the embedded model {name!r}",
                "fit them (whence fit --model ... --data ... --out FOLDER) and give probes=FOLDER",
            )
        return cls.load(folder)

    def _new_probes(self, widths: dict[Layer, int], n_hidden: int, seed: int) -> Probes:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return Probes(self.kind, self.recipe.probe, widths, n_hidden, self.recipe.start)

    def _fitted(self) -> Fitted:
        if self.fitted_ is None:
            raise UsageError("these probes are not trained yet", "call .fit(model, texts) first, or DiffMask.load")
        return self.fitted_

    def _checked(self, model: LayeredModel) -> Fitted:
        """The trained probes, if they belong to this model, or to what it was before a control changed it."""
        fitted = self._fitted()
        if is_changed_on_purpose(model.module):
            return fitted
        weights = [(weight, weight._version) for weight in model.module.parameters()]
        if len(weights) == len(self._seen) and all(
            seen() is weight and then == now for (seen, then), (weight, now) in zip(self._seen, weights, strict=True)
        ):
            return fitted
        different = first_difference(fitted.fingerprint, fingerprint(model.module))
        if different is not None:
            raise ModelError(
                f"these probes were trained for {fitted.model.id}, and this is another model ({different} differs)",
                "fit probes for this model, or load the one they belong to",
            )
        self._seen = [(ref(weight), now) for weight, now in weights]
        return fitted

    @staticmethod
    def _on(model: LayeredModel, fitted: Fitted) -> Probes:
        return fitted.probes.to(model.device)

    def __repr__(self) -> str:
        if self.fitted_ is None:
            return f"<DiffMask {self.kind}, not trained>"
        return f"<DiffMask {self.kind} of {self.fitted_.model.id}>"


def _encoded(model: LayeredModel, texts: Iterable[Text], name: str) -> list[Encoding]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"{name} is {type(texts).__name__}, not several texts", "give a list of strings or of pairs")
    return [encode(model, text, place) for place, text in enumerate(texts)]


def _reporting(progress: bool | Report, run: Fit) -> AbstractContextManager[Report | None]:
    """Whom to tell after each step."""
    if progress is False or not run.processes.is_main_process:
        return nullcontext()
    if progress is not True:
        return nullcontext(progress)
    from whence.render.fit_progress import fit_bar

    return fit_bar()


def _split(encodings: list[Encoding], seed: int) -> tuple[list[Encoding], list[Encoding]]:
    """A tenth of the texts is held out, at most `MOST_HELD_OUT`."""
    n_held_out = min(MOST_HELD_OUT, (len(encodings) + 9) // 10)
    order = torch.randperm(len(encodings), generator=generator(seed, "held out")).tolist()
    return [encodings[place] for place in order[n_held_out:]], [encodings[place] for place in order[:n_held_out]]


def _widths(model: LayeredModel, encoding: Encoding) -> dict[Layer, int]:
    states = model.states(model.collate([encoding]))
    return {layer: states.at(layer).shape[-1] for layer in ("embeddings", *range(model.n_layers + 1))}
