"""The loop and the folder are every learned explainer's: a small one that has nothing of DiffMask in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import ready_processes
import tiny_models
import torch
from tiny_models import TEXTS, tiny
from torch import Tensor, nn

import whence
from whence.learned import checkpoint
from whence.learned.checkpoint import Parts, free_folder
from whence.learned.schedule import Pace
from whence.learned.texts import gather
from whence.learned.training import Batch, Training
from whence.methods.question import Method, Question, Scores
from whence.models.inputs import Encoding, Inputs
from whence.probes import folder as folders
from whence.probes.folder import Contents
from whence.probes.owner import Owner

if TYPE_CHECKING:
    from jaxtyping import Float

SCHEMA = "test.effects/1"
LAYER = 2


# The explainer: one probe, one objective, one reading


def effects(model: whence.LayeredModel, inputs: Inputs) -> Float[Tensor, "batch token"]:
    """How much of the predicted class's probability goes when a token becomes the mask: no gradient is needed."""
    whole, predicted = model.run(inputs).softmax(dim=-1).max(dim=-1, keepdim=True)
    mask = model.embed(torch.tensor([[model.tokenizer.masking]]))[0, 0]
    found = []
    for position in range(inputs.ids.shape[1]):
        words = model.embed(inputs.ids)
        words[:, position] = mask
        said = model.resume("embeddings", words, inputs).softmax(dim=-1)
        found.append(whole - said.gather(1, predicted))
    return torch.cat(found, dim=1)


class EffectLearner:
    """A linear probe that learns to foretell effects from the states of one layer."""

    def __init__(self, model: whence.LayeredModel, probe: nn.Linear) -> None:
        self.model, self.probe = model, probe
        self.optimiser = torch.optim.Adam(probe.parameters(), lr=0.02)
        self.settings = {"layer": LAYER}
        self.running_error = 1.0

    def begin(self, texts: Sequence[Encoding]) -> None:
        inputs = self.model.collate(texts)
        self.probe.bias.fill_(effects(self.model, inputs)[inputs.mask].mean())

    def errors(self, inputs: Inputs) -> Float[Tensor, " batch"]:
        found = self.probe(self.model.states(inputs).at(LAYER).detach()).squeeze(-1)
        each = (found - effects(self.model, inputs).detach()).square() * inputs.mask
        return each.sum(dim=1) / inputs.mask.sum(dim=1)

    def add_gradients(self, batch: Batch) -> Float[Tensor, ""]:
        with torch.enable_grad():
            errors = self.errors(batch.inputs)
            errors.sum().div(batch.n_texts).backward()
        return errors.detach().sum()

    def update(self, batch: Batch, means: Float[Tensor, ""]) -> None:
        self.optimiser.step()
        self.running_error += 0.1 * (float(means) - self.running_error)

    def validate(self, held_out: Sequence[Sequence[Encoding]]) -> dict[str, Any]:
        errors = [self.errors(self.model.collate(batch)) for batch in held_out]
        return {"error": float(torch.cat(errors).mean()), "running": self.running_error}

    def merit(self, validation: Mapping[str, Any]) -> float:
        return -float(validation["error"])

    def is_under_way(self, validation: Mapping[str, Any]) -> bool:
        return True

    def state(self) -> tuple[Parts, dict[str, Any]]:
        return {}, {"running_error": self.running_error}

    def restore(self, parts: Parts, values: Mapping[str, Any]) -> None:
        self.running_error = values["running_error"]


class Effects:
    """What a user would hold: fit, explain, save, load."""

    def __init__(self, probe: nn.Linear, owner: Owner, history: Sequence[Mapping[str, Any]]) -> None:
        self.probe, self.owner, self.history = probe, owner, history

    @classmethod
    def fit(
        cls, model: whence.LayeredModel, texts: Sequence[str], *, folder: Path | None = None, seed: int = 0,
        steps: int = 24, patience: int | None = None, after_step: Callable[[Training], None] = lambda training: None,
    ) -> Effects:  # fmt: skip
        path = None if folder is None else free_folder(folder)
        learner = EffectLearner(model, nn.utils.skip_init(nn.Linear, 16, 1))
        nn.init.zeros_(learner.probe.weight)
        pace = Pace(steps, batch_size=4, warm_up=2, patience=patience, validations=8, seed=seed)
        training = Training(model, learner, gather(model, texts, None, seed), pace, batch_tokens=100)
        training.run(path, lambda: after_step(training))
        fitted = cls(learner.probe.requires_grad_(False), training.owner, training.history)
        training.finish(path, fitted.save)
        return fitted

    def explain(self, model: whence.LayeredModel, texts: str) -> whence.Explanation:
        return whence.explain(
            model, texts, Method(self.scores, MEANING, needs=("trained probes",), cost="1 forward"), layers=LAYER
        )

    def scores(self, question: Question) -> Scores:
        self.owner.check(question.model)
        return Scores(self.probe(question.states.at(LAYER)).squeeze(-1)[:, None])

    def save(self, folder: Path) -> None:
        contents = Contents(self.probe.state_dict(), self.owner, {"history": self.history})
        folders.save(folder, SCHEMA, contents, "# Effects foretold\n")

    @classmethod
    def load(cls, folder: Path) -> Effects:
        def read(contents: Contents) -> Effects:
            probe = nn.Linear(16, 1).requires_grad_(False)
            probe.load_state_dict(contents.weights)
            return cls(probe, contents.owner, contents.config["history"])

        return folders.load(folder, SCHEMA, read)


MEANING = whence.Meaning("effect", "what masking the token takes from the probability", signed=True, additive=False)


# What it gets from the shared parts


def same(one: Effects, other: Effects) -> bool:
    return torch.equal(one.probe.weight, other.probe.weight) and torch.equal(one.probe.bias, other.probe.bias)


def test_it_trains_and_explains_in_one_pass() -> None:
    model = tiny("bert")
    fitted = Effects.fit(model, TEXTS * 4)
    errors = [each["error"] for each in fitted.history]
    assert [each["step"] for each in fitted.history] == list(range(3, 25, 3))
    assert errors[-1] < 0.5 * errors[0]
    explanation = fitted.explain(model, TEXTS[0])
    inputs = model.collate([model.encode(TEXTS[0])])
    with torch.no_grad():
        truth = effects(model, inputs)[0].numpy()
    assert np.corrcoef(explanation.scores[0], truth)[0, 1] > 0.8
    assert explanation.cost.forwards == 1


def test_the_same_seed_gives_the_same_probe_and_another_does_not() -> None:
    first = Effects.fit(tiny("bert"), TEXTS * 4, steps=4, seed=1)
    torch.manual_seed(5)
    assert same(first, Effects.fit(tiny("bert"), TEXTS * 4, steps=4, seed=1))
    assert not same(first, Effects.fit(tiny("bert"), TEXTS * 4, steps=4, seed=2))


def test_standing_still_ends_it_early() -> None:
    fitted = Effects.fit(tiny("bert"), TEXTS * 4, steps=24, patience=1)
    assert fitted.history[-1]["step"] < 24


def killed_at(step: int, folder: Path) -> None:
    """For a process of its own: fit with a checkpoint after every step, until it kills itself."""
    checkpoint.SECONDS = (-1,)

    def kill(training: Training) -> None:
        if training.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    Effects.fit(tiny("bert"), TEXTS * 4, folder=folder, steps=8, after_step=kill)


def test_a_killed_fit_goes_on_to_the_same_probe(tmp_path: Path) -> None:
    folder = tmp_path / "effects"
    script = f"""
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_learned_loop import killed_at
killed_at(5, Path({str(folder)!r}))
"""
    result = ready_processes.run(script)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert [file.name for file in folder.iterdir()] == [checkpoint.NAME]
    seen: list[int] = []
    resumed = Effects.fit(
        tiny("bert"), TEXTS * 4, folder=folder, steps=8, after_step=lambda training: seen.append(training.step)
    )
    whole = Effects.fit(tiny("bert"), TEXTS * 4, steps=8)
    assert seen == [6, 7, 8]
    assert same(resumed, whole)
    assert resumed.history == whole.history
    assert sorted(file.name for file in folder.iterdir()) == sorted(folders.FILES)


class StoppedError(Exception):
    """What ends a run in the next test."""


def test_a_checkpoint_of_another_run_or_explainer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", (-1,))

    def stop(training: Training) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        Effects.fit(tiny("bert"), TEXTS * 4, folder=tmp_path, after_step=stop)
    with pytest.raises(whence.UsageError, match="had other steps"):
        Effects.fit(tiny("bert"), TEXTS * 4, folder=tmp_path, steps=9)
    with pytest.raises(whence.UsageError, match="had other kind"):
        whence.DiffMask(steps=24).fit(tiny("bert"), TEXTS * 4, folder=tmp_path)


def test_saved_and_loaded_it_explains_alike_and_refuses_another_model(tmp_path: Path) -> None:
    fitted = Effects.fit(tiny("bert"), TEXTS * 4, steps=4, folder=tmp_path)
    loaded = Effects.load(tmp_path)
    assert same(loaded, fitted)
    assert loaded.history == fitted.history
    ours, theirs = (each.explain(tiny("bert"), TEXTS[1]).scores for each in (fitted, loaded))
    np.testing.assert_array_equal(ours, theirs)
    other = whence.load(tiny_models.build("bert", seed=1), tiny_models.wordpiece())
    with pytest.raises(whence.ModelError, match="this is another model"):
        loaded.explain(other, TEXTS[1])
    with pytest.raises(
        whence.FileError, match=r"holds other things than probes of this kind \(schema 'test.effects/1'"
    ):
        whence.DiffMask.load(tmp_path)
    with pytest.raises(whence.UsageError, match="already holds something"):
        Effects.fit(tiny("bert"), TEXTS * 4, folder=tmp_path)
