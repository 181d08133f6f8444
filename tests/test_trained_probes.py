"""Trained probes: saved, loaded, refused for another model, and explaining."""

from __future__ import annotations

import functools
import json
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from quick_probes import KINDS, QUICK, every_kind, quick, same
from tiny_models import TEXTS, tiny
from torch import Tensor

import whence
from whence import DiffMask
from whence.explanation import Explanation
from whence.probes.diffmask import Kind

# Saving and loading


@pytest.fixture(scope="module")
def fitted() -> dict[Kind, DiffMask]:
    """For the tiny BERT that the fixture `bert` makes anew for each test."""
    return {kind: quick(kind, tiny("bert")) for kind in KINDS}


@every_kind
def test_what_is_saved_is_loaded(kind: Kind, fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    fitted[kind].save(tmp_path / "probes")
    again = DiffMask.load(tmp_path / "probes")
    assert same(again, fitted[kind])
    assert again.kind == kind
    assert again.recipe == fitted[kind].recipe
    assert again.fitted_ is not None
    assert fitted[kind].fitted_ is not None
    for name in ("model", "seed", "n_texts", "results", "history", "margin", "whence_version"):
        assert getattr(again.fitted_, name) == getattr(fitted[kind].fitted_, name)
    for name in ("widths", "n_hidden"):
        assert getattr(again.fitted_.probes, name) == getattr(fitted[kind].fitted_.probes, name)  # type: ignore[union-attr]
    assert repr(again) == repr(fitted[kind])
    texts = list(TEXTS)
    for one, other in zip(again.explain(tiny("bert"), texts), fitted[kind].explain(tiny("bert"), texts), strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


@every_kind
def test_a_content_key_tells_probes_apart_by_what_they_are(
    kind: Kind, fitted: dict[Kind, DiffMask], tmp_path: Path
) -> None:
    key = fitted[kind].content_key()
    fitted[kind].save(tmp_path)
    assert DiffMask.load(tmp_path).content_key() == key
    assert quick(kind, tiny("bert")).content_key() == key  # made again
    others = {
        "other weights": quick(kind, tiny("bert"), seed=1),
        "another recipe": quick(kind, tiny("bert"), multiplier_limit=150.0),
        "another kind": fitted["hidden" if kind == "input" else "input"],
    }
    assert same(others["another recipe"], fitted[kind])
    assert len({key, *(each.content_key() for each in others.values())}) == 4
    with torch.no_grad():
        changed = DiffMask.load(tmp_path)
        assert changed.fitted_ is not None
        changed.fitted_.probes.baselines[0][3] += 1e-6
    assert changed.content_key() != key
    with pytest.raises(whence.UsageError, match="not trained yet"):
        DiffMask().content_key()


@pytest.mark.parametrize("recipe", ["released", "paper"])
def test_other_forms_are_saved_too(recipe: str, tmp_path: Path) -> None:
    probes = DiffMask("input", recipe, **QUICK).fit(tiny("bert"), TEXTS * 2, validations=1)
    probes.save(tmp_path)
    assert same(DiffMask.load(tmp_path), probes)


def test_loading_draws_no_random_numbers(fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    fitted["input"].save(tmp_path)
    before = torch.get_rng_state()
    DiffMask.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_the_size_explains_nearly_the_same(fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    fitted["input"].save(tmp_path / "whole")
    fitted["input"].save(tmp_path / "half", dtype=torch.float16)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "whole")]
    assert sizes[0] < 0.8 * sizes[1]
    small, large = (DiffMask.load(tmp_path / name).explain(tiny("bert"), TEXTS[2]) for name in ("half", "whole"))
    np.testing.assert_allclose(small.scores, large.scores, atol=1e-2)
    assert not (small.scores == large.scores).all()


def test_the_folder_is_plain_readable_and_whole(fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    fitted["hidden"].save(tmp_path / "probes")
    files = sorted((tmp_path / "probes").iterdir())
    assert [file.name for file in files] == ["README.md", "config.json", "model.safetensors"]
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    config = json.loads((tmp_path / "probes" / "config.json").read_text())
    assert config["schema"] == "whence.diffmask/1"
    assert config["model"]["architecture"] == "BertForSequenceClassification"
    card = (tmp_path / "probes" / "README.md").read_text()
    assert "| layer | share masked | agreement | divergence |" in card
    assert card.count("\n| ") == 6


def test_another_model_is_refused(fitted: dict[Kind, DiffMask], bert: whence.LayeredModel, tmp_path: Path) -> None:
    fitted["input"].save(tmp_path)
    probes = DiffMask.load(tmp_path)
    assert probes.explain(bert, TEXTS[0]).scores.any()  # another copy of the same model
    others = {
        "another seed": whence.load(tiny_models.build("bert", seed=1), tiny_models.wordpiece()),
        "another architecture": tiny("distilbert"),
        "another head": tiny("bert", "question_answering"),
        "more layers": whence.load(tiny_models.build("bert", num_hidden_layers=4), tiny_models.wordpiece()),
    }
    for name, other in others.items():
        text = tiny_models.PAIRS[0] if name == "another head" else TEXTS[0]
        with pytest.raises(whence.ModelError) as caught:
            probes.explain(other, text)
        first, second = str(caught.value).splitlines()
        assert first.startswith("these probes were trained for "), name
        assert first.endswith(" differs)"), name
        assert second == "fit probes for this model, or load the one they belong to"
    with torch.no_grad():
        bert.module.classifier.bias.add_(0.1)  # type: ignore[union-attr,operator]
    with pytest.raises(whence.ModelError, match=r"classifier\.bias differs"):
        probes.explain(bert, TEXTS[0])  # it was the right one a moment ago


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_same_model_in_less_precision_is_accepted(fitted: dict[Kind, DiffMask], dtype: torch.dtype) -> None:
    model = whence.load(tiny_models.build("bert").to(dtype), tiny_models.wordpiece())
    scores = fitted["hidden"].explain(model, TEXTS[2]).scores
    np.testing.assert_allclose(scores, fitted["hidden"].explain(tiny("bert"), TEXTS[2]).scores, atol=0.05)


def spoil(folder: Path, how: str) -> None:
    config, tensors = folder / "config.json", folder / "model.safetensors"
    known = json.loads(config.read_text())
    if how == "no weights":
        tensors.unlink()
    elif how == "cut weights":
        tensors.write_bytes(tensors.read_bytes()[:-100])
    elif how == "other weights":
        tensors.write_bytes(b"\x80\x04]")  # how a pickle begins
    elif how == "no json":
        config.write_text("{")
    elif how == "a list":
        config.write_text("[]")
    elif how == "another schema":
        config.write_text(json.dumps({"schema": "else"}))
    elif how == "a key less":
        config.write_text(json.dumps({name: value for name, value in known.items() if name != "widths"}))
    elif how == "another kind":
        config.write_text(json.dumps({**known, "kind": "both"}))
    elif how == "another width":
        config.write_text(json.dumps({**known, "n_hidden": 5}))


@pytest.mark.parametrize(
    "how",
    ["no weights", "cut weights", "other weights", "no json", "a list", "another schema", "a key less",
     "another kind", "another width"],
)  # fmt: skip
def test_a_damaged_folder_says_so(how: str, fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    fitted["input"].save(tmp_path)
    spoil(tmp_path, how)
    with pytest.raises(whence.FileError) as caught:
        DiffMask.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


def test_a_folder_without_probes_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(whence.FileError, match="no probes in"):
            DiffMask.load(folder)


def test_what_cannot_be_written_says_so(fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(whence.FileError, match="cannot write to"):
        fitted["input"].save(tmp_path / "file" / "probes")
    with pytest.raises(whence.FileError, match="cannot make the folder"):
        quick("input", tiny("bert"), folder=tmp_path / "file" / "probes")


def test_a_finished_folder_is_not_overwritten(tmp_path: Path) -> None:
    probes = quick("hidden", tiny("bert"), folder=tmp_path / "a" / "b")
    assert same(DiffMask.load(tmp_path / "a" / "b"), probes)
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "README.md", "config.json", "model.safetensors"
    ]  # fmt: skip
    before = (tmp_path / "a" / "b" / "model.safetensors").read_bytes()
    with pytest.raises(whence.UsageError, match=r"already holds something\nchoose another folder, or load it"):
        quick("hidden", tiny("bert"), seed=1, folder=tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "model.safetensors").read_bytes() == before


# Explaining


@every_kind
def test_explaining_by_object_folder_and_method_is_the_same(
    kind: Kind, fitted: dict[Kind, DiffMask], tmp_path: Path
) -> None:
    model = tiny("bert")
    fitted[kind].save(tmp_path)
    by_object = whence.explain(model, TEXTS, "diffmask", probes=fitted[kind])
    assert [each.method for each in by_object] == ["diffmask"] * 3
    for ways in (
        fitted[kind].explain(model, TEXTS),
        whence.explain(model, TEXTS, "diffmask", probes=tmp_path),
        whence.explain(model, TEXTS, "diffmask", probes=str(tmp_path), kind=kind),
        whence.explain(
            model, TEXTS,
            replace(whence.METHODS["diffmask"], compute=functools.partial(
                whence.METHODS["diffmask"].compute, probes=fitted[kind]
            )),
        ),
    ):  # fmt: skip
        for one, other in zip(by_object, ways, strict=True):
            np.testing.assert_array_equal(one.scores, other.scores)
            assert other.method == "diffmask"
    single = fitted[kind].explain(model, TEXTS[0], layers=[1, 2])
    np.testing.assert_allclose(single.scores, by_object[0].scores[2:4], atol=1e-6)


def test_scores_are_the_keep_probabilities_of_the_probes(fitted: dict[Kind, DiffMask]) -> None:
    model = tiny("bert")
    inputs = model.collate([model.encode(TEXTS[1])])
    states = model.states(inputs)
    known: dict[whence.Layer, Tensor] = {"embeddings": states.embeddings, **dict(enumerate(states.hidden))}
    for kind, probes in fitted.items():
        assert probes.fitted_ is not None
        inner, chances = probes.fitted_.probes, []
        for index, layer in enumerate(inner.layers):
            logits = inner.of_layer[index](known["embeddings"] if kind == "input" else None, known[layer])
            chances.append(torch.sigmoid(logits + 0.2 * np.log(5))[0].detach().numpy())
        expected = np.cumprod(chances, axis=0) if kind == "input" else np.array(chances)
        explanation = probes.explain(model, TEXTS[1])
        np.testing.assert_allclose(explanation.scores, expected, rtol=1e-5)
        assert explanation.meaning.name == "keep probability"


def test_options_are_recorded_in_plain_words(fitted: dict[Kind, DiffMask], tmp_path: Path) -> None:
    explanation = fitted["hidden"].explain(tiny("bert"), TEXTS[0])
    assert explanation.options == {"probes": f"<DiffMask hidden of {tiny('bert').record.id}>", "kind": None}
    json.dumps(explanation.to_dict())
    explanation.save(tmp_path / "e.json")
    assert Explanation.load(tmp_path / "e.json") == explanation
    fitted["hidden"].save(tmp_path / "probes")
    by_folder = whence.explain(tiny("bert"), TEXTS[0], "diffmask", probes=tmp_path / "probes")
    assert by_folder.options["probes"] == str(tmp_path / "probes")


def test_a_folder_written_anew_is_read_anew(tmp_path: Path) -> None:
    model = tiny("bert")
    scores = []
    for seed in (0, 1):
        quick("hidden", model, seed=seed).save(tmp_path)
        scores.append(whence.explain(model, TEXTS[0], "diffmask", probes=tmp_path).scores)
    assert not (scores[0] == scores[1]).all()


def test_without_probes_it_is_told_how_to_get_some(fitted: dict[Kind, DiffMask]) -> None:
    model = tiny("bert")
    with pytest.raises(whence.UsageError) as caught:
        whence.explain(model, TEXTS[0], "diffmask")
    first, second = str(caught.value).splitlines()
    assert first == f"no probes came with {model.record.id!r}"
    assert "whence fit --model" in second
    named_alike = replace(model, record=replace(model.record, id="whence/sentiment"))
    with pytest.raises(whence.UsageError, match="no probes came with 'whence/sentiment'"):
        whence.explain(named_alike, TEXTS[0], "diffmask")
    with pytest.raises(whence.UsageError, match="probes is int\ngive a whence"):
        whence.explain(model, TEXTS[0], "diffmask", probes=3)
    with pytest.raises(whence.UsageError, match="these are hidden probes, not input ones"):
        whence.explain(model, TEXTS[0], "diffmask", probes=fitted["hidden"], kind="input")
    with pytest.raises(whence.FileError, match="no probes in 'nowhere'"):
        whence.explain(model, TEXTS[0], "diffmask", probes="nowhere")
    with pytest.raises(whence.UnknownNameError, match="unknown embedded model 'sentimental'"):
        DiffMask.embedded("sentimental")
    with pytest.raises(whence.UnknownNameError, match="unknown kind 'both'"):
        DiffMask.embedded("sentiment", kind="both")  # type: ignore[arg-type]


@every_kind
@pytest.mark.parametrize("name", ["sentiment", "topic"])
def test_the_probes_of_the_embedded_models_explain_a_new_sentence(name: str, kind: Kind) -> None:
    model = whence.load(name)
    explanation = whence.explain(model, "Not the worst film of the year, but close.", "diffmask", kind=kind)
    assert explanation.layers == ("embeddings", *range(7))
    assert (explanation.cost.forwards, explanation.cost.backwards) == (1, 0)
    assert 0 < (explanation.scores > 0.5).mean() < 1
    assert kind == "hidden" or (np.diff(explanation.scores, axis=0) <= 1e-6).all()  # what is dropped stays dropped
    with pytest.raises(whence.ModelError, match="this is another model"):
        DiffMask.embedded(name, kind).explain(whence.load("topic" if name == "sentiment" else "sentiment"), "a film")


def test_probes_that_did_not_ship_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("whence.embedded.probes_folder", lambda name, kind: tmp_path / "nowhere")
    with pytest.raises(whence.UsageError, match="no input probes came with the embedded model 'topic'"):
        DiffMask.embedded("topic")
