"""The attention audit: numbers by hand and by scipy, streaming, every family, the verdict, and the command."""

import io
import json
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest
import tiny_models
import torch
from matplotlib import pyplot
from rich.console import Console
from scipy.stats import kendalltau
from typer.testing import CliRunner

import whence
from whence.attention.attention_maps import read_attention
from whence.attention.audit import audit_attention
from whence.attention.audit_record import (
    AttentionAudit,
    AttentionConcentration,
    MeasureConcentration,
    MeasureCorrelation,
    RankCorrelation,
)
from whence.attention.classifier import AttentionClassifier, ClassifierConfig
from whence.attention.vocabulary import Vocabulary
from whence.cli import app
from whence.errors import FileError, InputError, ModelError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import ModelRecord
from whence.models.huggingface_attention import use_attention
from whence.render.audit import plot_heads
from whence.testing import _assert_same, _snapshot

matplotlib.use("agg")
TEXTS = tiny_models.TEXTS
MEASURES = ["gradient", "leave_one_out"]


@pytest.fixture(scope="module")
def audit():
    return audit_attention(tiny_models.tiny("bert"), TEXTS, measures=MEASURES)


@pytest.mark.parametrize("queries", ["all", "first", "last"])
def test_numbers_are_those_of_scipy_on_what_transformers_gives(queries):
    model = tiny_models.tiny("bert")
    audit = audit_attention(model, TEXTS, measures=["gradient"], queries=queries)
    explanations = whence.explain(model, TEXTS, "gradient", layers="embeddings")
    taus: dict[tuple[int | str, int | None], list[float]] = {}
    for explanation in explanations:
        words = np.array([not token.special for token in explanation.tokens])
        inputs = model.collate([model.encode(explanation.text)])
        assert model.attend is not None
        for layer, weights in enumerate(model.attend(inputs), start=1):
            maps = weights[0].detach().double().numpy()
            received = {"all": maps.mean(axis=1), "first": maps[:, 0], "last": maps[:, -1]}[queries]
            rows = {None: received.mean(axis=0), 1: received[0], 2: received[1]}
            for head, row in rows.items():
                found = kendalltau(row[words], np.abs(explanation.row("embeddings"))[words]).statistic
                taus.setdefault((layer, head), []).append(found)
    assert len(audit.rank_correlations) == len(taus) == 3 * 3
    for row in audit.rank_correlations:
        assert row.tau == pytest.approx(np.mean(taus[row.layer, row.head]), abs=1e-9)
        assert row.spread == pytest.approx(np.std(taus[row.layer, row.head]), abs=1e-9)
        assert row.low <= row.tau <= row.high
        assert (row.tie_null, row.n_undefined) == (0, 0)
        assert row.excess == row.tau


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_every_family_gives_its_attention_layer_by_layer(family):
    model = tiny_models.tiny(family)
    inputs = model.collate([model.encode(text) for text in TEXTS])
    before = _snapshot(model)
    found: dict[int | str, torch.Tensor] = {}
    read_attention(model, inputs, lambda layer, weights: found.update({layer: weights.clone()}))
    _assert_same(before, _snapshot(model))
    assert model.attend is not None
    with model.held(), torch.no_grad():
        expected = model.attend(inputs)
    assert list(found) == list(range(1, model.n_layers + 1))
    for weights, other in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(weights, other)


def test_no_map_outlives_its_layer(bert):
    """When a layer hands its map over, those of the layers below are gone."""
    import weakref

    inputs = bert.collate([bert.encode(text) for text in TEXTS])
    seen: list[Any] = []
    alive: list[int] = []

    def consume(layer, weights):
        alive.append(sum(reference() is not None for reference in seen))
        seen.append(weakref.ref(weights))

    read_attention(bert, inputs, consume)
    assert len(seen) == 3
    assert max(alive) <= 1


@pytest.mark.parametrize("crash_in", ["block", "consumer"])
def test_the_model_is_left_as_found_after_a_crash(bert, crash_in):
    inputs = bert.collate([bert.encode(TEXTS[0])])

    class CrashError(Exception):
        pass

    def crash(*_):
        raise CrashError

    handle = bert.stack.blocks[1].register_forward_hook(crash) if crash_in == "block" else None
    before = _snapshot(bert)
    with pytest.raises(CrashError):
        read_attention(bert, inputs, crash if crash_in == "consumer" else lambda *_: None)
    _assert_same(before, _snapshot(bert))
    if handle:
        handle.remove()
    assert bert.module.config._attn_implementation == "sdpa"


def test_batches_do_not_matter(audit):
    small = audit_attention(tiny_models.tiny("bert"), TEXTS, measures=MEASURES, batch_tokens=10)
    for one, other in zip(audit.rank_correlations, small.rank_correlations, strict=True):
        assert one.tau == pytest.approx(other.tau, abs=0.02)  # float32 may swap two all but equal weights
    assert [one.entropy for one in audit.attention] == pytest.approx([other.entropy for other in small.attention])


def classifier(encoder, projection="sparsemax"):
    torch.manual_seed(0)
    vocabulary = Vocabulary.of(TEXTS)
    config = ClassifierConfig(encoder, projection=projection, embedding_size=8, hidden_size=6)
    model = AttentionClassifier(vocabulary, config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return whence.load(model)


@pytest.mark.parametrize(("encoder", "layers"), [("bilstm", ("pooling",)), ("transformer", (1, 2, "pooling"))])
def test_our_own_classifiers(encoder, layers):
    audit = audit_attention(classifier(encoder), TEXTS, measures=MEASURES)
    assert audit.layers == layers
    pooling = next(row for row in audit.attention if row.layer == "pooling" and row.head is None)
    assert pooling.nonzero < 1
    assert "weights exactly zero" in " ".join(audit.verdict.reasons) or encoder == "transformer"


def test_zeros_that_both_share_are_what_ties_explain():
    """Gradients with respect to states vanish where sparse attention does: here the words are the states."""
    torch.manual_seed(0)
    vocabulary = Vocabulary.of(TEXTS)

    class WordsOnly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = ClassifierConfig(projection="sparsemax", embedding_size=8, hidden_size=4)
            self.inner = AttentionClassifier(vocabulary, config)
            self.same = torch.nn.Identity()

        def forward(self, ids, mask):
            states = self.same(self.inner.embedding(ids))
            logit = self.inner.pool(states, mask & (ids > 3)).logit
            return torch.stack([-logit, logit], dim=-1)

    module = WordsOnly().eval()
    model = whence.load(module, vocabulary, blocks=[module.same], labels=["no", "yes"])

    def attend(inputs):
        states = module.inner.embedding(inputs.ids)
        return [module.inner.pool(states, inputs.mask & (inputs.ids > 3)).weights[:, None, None]]

    row = audit_attention(replace(model, attend=attend), TEXTS, measures=["gradient"]).rank_correlations[0]
    assert row.tie_null > 0.3
    assert row.excess == pytest.approx(row.tau - row.tie_null)


def test_a_sparse_hugging_face_model_is_read_as_it_is(bert):
    use_attention(bert.module, "sparsemax")
    audit = audit_attention(bert, TEXTS, measures=["gradient"], queries="first")
    assert all(row.nonzero < 1 for row in audit.attention if row.head)
    assert bert.module.config._attn_implementation == "sparsemax"


def test_undefined_texts_are_left_out_and_counted():
    audit = audit_attention(tiny_models.tiny("bert"), [*TEXTS, "bad"], measures=["gradient"])
    whole = audit_attention(tiny_models.tiny("bert"), TEXTS, measures=["gradient"])
    assert audit.n_too_short == 1
    assert {row.n_undefined for row in audit.rank_correlations} == {1}
    assert [row.tau for row in audit.rank_correlations] == pytest.approx(
        [row.tau for row in whole.rank_correlations], abs=1e-6
    )
    assert "1 of 4 texts have fewer than two words" in " ".join(audit.verdict.reasons)
    nothing = audit_attention(tiny_models.tiny("bert"), ["bad"], measures=["gradient"])
    assert nothing.verdict.answer.startswith("Nothing can be said")
    assert nothing.to_dict()["rank_correlations"][0]["tau"] is None
    Console(width=100, record=True, file=open("/dev/null", "w")).print(nothing)  # noqa: SIM115


def test_wrong_use():
    model = tiny_models.tiny("bert")
    with pytest.raises(InputError, match="no text to audit"):
        audit_attention(model, [])
    with pytest.raises(InputError, match="text 1 is empty"):
        audit_attention(model, ["a film", " "])
    with pytest.raises(UnknownNameError, match="known: all, first, last"):
        audit_attention(model, TEXTS, queries="middle")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="method 'gradients'"):
        audit_attention(model, TEXTS, measures=["gradients"])
    with pytest.raises(UsageError, match="give a list of methods"):
        audit_attention(model, TEXTS, measures="gradient")
    torch.manual_seed(0)
    gru = tiny_models.GRUClassifier()
    plain = whence.load(gru, tiny_models.word_tokenizer(), blocks=[gru.first, gru.second], labels=["a", "b", "c"])
    with pytest.raises(ModelError, match="no attention weights to read"):
        audit_attention(plain, TEXTS, measures=["gradient"])


def correlation(tau, null=0.0, half=0.02, n_undefined=0):
    """The numbers of a rank correlation whose interval is τ ± half."""
    excess = tau - null
    return (tau, tau - half, tau + half, 0.1, null, excess, excess - half, excess + half, n_undefined)


def made(tau, null=0.0, between=0.5, layers=(1, 2), n_undefined=0, half=0.02):
    """An audit with these numbers: a τ per layer, two heads each."""
    rows = [
        RankCorrelation(layer, head, "gradient", *correlation(t, null, half, n_undefined))
        for layer, t in zip(layers, tau, strict=True)
        for head in (None, 1, 2)
    ]
    spread = [AttentionConcentration(layer, None, 0.8, 0.1, 0.5 if null else 1.0, 0) for layer in layers]
    pairs = () if between is None else (MeasureCorrelation("gradient", "other", *correlation(between, half=half)),)
    return AttentionAudit(
        ModelRecord("m", None, "M", "classification"), 100, "all", "logit", ("gradient",), layers, tuple(rows),
        tuple(spread), (MeasureConcentration("gradient", 0.9, 0.1, 1.0, 0),), pairs, 0, 0, 1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tau", "null", "between", "answer"),
    [
        (0.05, 0.0, 0.5, "does not tell which inputs matter"),
        (0.95, 0.9, 0.5, "does not tell which inputs matter"),
        (0.20, 0.0, 0.5, "tells little about which inputs matter to this model: less than half"),
        (0.35, 0.0, 0.5, "tells something about which inputs matter to this model, but less than the measures"),
        (0.31, 0.0, 0.31, "tells as much about which inputs matter to this model as the measures tell of each other"),
        (0.28, 0.0, 0.31, "tells as much"),  # the intervals meet
        (0.26, 0.0, 0.31, "but less than the measures tell of each other"),
        (0.20, 0.0, 0.12, "tells more about which inputs matter to this model than the measures"),
        (0.20, 0.0, 0.05, "Nothing can be said: the importance measures do not rank the inputs alike themselves"),
        (0.40, 0.0, None, "tells something about which inputs matter to this model; how much could be"),
    ],
)
def test_the_verdict_follows_from_the_numbers(tau, null, between, answer):
    assert answer in made((tau, 0.02), null, between).verdict.answer


def test_attention_as_near_to_the_measures_as_they_to_each_other_does_not_tell_little():
    """On the embedded model attention had .39 with gradient and the measures .40 at most: that was called little."""
    audit = made((0.22, 0.02), between=0.25, half=0.03)
    assert "little" not in audit.verdict.answer
    assert "as much" in audit.verdict.answer
    first = audit.verdict.reasons[0]
    assert "0.22 [0.19, 0.25] on average" in first
    assert "that of the measures among themselves is 0.25 [0.22, 0.28]" in first


def test_wider_intervals_never_make_the_verdict_surer():
    sure = made((0.20, 0.02), between=0.5, half=0.01).verdict.answer
    unsure = made((0.20, 0.02), between=0.5, half=0.2).verdict.answer
    assert "little" in sure
    assert "too few to say" in unsure


def test_the_reasons_follow_from_the_numbers():
    reasons = " ".join(made((0.05, 0.45), between=0.2).verdict.reasons)
    assert "Attention of layer 1 ranks inputs little better than ties alone explain (at most +0.05" in reasons
    assert (
        "attention of layer 2 (the best layer, chosen after looking) with the measures is 0.45 [0.43, 0.47]" in reasons
    )
    assert "it is 0.45 [0.43, 0.47] with gradient, where the other measures reach 0.20." in reasons
    assert "exactly zero" not in reasons
    sparse = " ".join(made((0.9, 0.92), null=0.9, n_undefined=7).verdict.reasons)
    assert "is 0.02 [0.00, 0.04] on average" in sparse
    assert "τ beyond ties, which alone explain 0.90" in sparse
    assert "Attention of layers 1, 2 ranks inputs little better than ties" in sparse
    assert "50% of its weights exactly zero" in sparse
    assert "On up to 7 of 100 texts" in sparse
    single = " ".join(made((0.3,), layers=("pooling",), between=0.25).verdict.reasons)
    assert "The rank correlation of the attention of the pooling layer with the measures" in single


def test_record_table_and_plots(audit, tmp_path):
    audit.save(tmp_path / "audit.json")
    data = json.loads((tmp_path / "audit.json").read_text())
    assert data["kind"] == "attention_audit"
    assert data["verdict"]["answer"] == audit.verdict.answer
    assert len(data["rank_correlations"]) == 3 * 3 * 2
    assert "are few" in data["warnings"][0]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(audit)
    shown = console.export_text()
    assert audit.verdict.answer in " ".join(shown.split())
    assert f"{audit.of_layer(2)[0].tau:+.2f}" in shown
    assert "…" not in shown, "a table is cut off at 80 columns"
    assert "ties" not in shown.split("layer  ", 1)[1].split("Kendall")[0], "dense attention has no ties to speak of"
    axes = audit.plot()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == MEASURES
    heads = plot_heads(audit, "leave_one_out")
    drawn = heads.collections[0].get_array()
    assert drawn is not None
    expected = [[audit.of_layer(layer, head)[1].tau for head in (1, 2)] for layer in audit.layers]
    np.testing.assert_allclose(drawn.reshape(3, 2), expected)
    with pytest.raises(UnknownNameError, match="known: gradient, leave_one_out"):
        plot_heads(audit, "lime")
    pyplot.close("all")
    assert repr(audit).startswith("<AttentionAudit of BertForSequenceClassification on 3 texts")


def test_a_saved_audit_is_read_back(audit, tmp_path):
    for each in (audit, audit_attention(tiny_models.tiny("bert"), ["bad"], measures=["gradient"])):  # NaN and all
        each.save(tmp_path / "audit.json")
        read = AttentionAudit.load(tmp_path / "audit.json")
        assert read.to_dict() == each.to_dict()
        assert read.verdict == each.verdict
        assert [row.layer for row in read.rank_correlations] == [row.layer for row in each.rank_correlations]
    assert np.isnan(read.rank_correlations[0].tau)
    assert read.rank_correlations[0].head is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no attention audit"),
        ('{"kind": "attention_audit", "schema": 1}', "schema 1, not 2"),
        ('{"kind": "attention_audit", "schema": 2}', "broken: KeyError: 'model'"),
        ('{"kind": "attention_audit", "schema": 2, "model": 3}', "broken: TypeError"),
    ],
)
def test_a_file_that_is_no_audit_is_refused(content, message, tmp_path):
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(FileError, match=message):
        AttentionAudit.load(tmp_path / "audit.json")
    with pytest.raises(FileError, match="cannot read"):
        AttentionAudit.load(tmp_path / "nowhere.json")


def test_an_audit_as_a_table_and_in_a_notebook(audit):
    frame = audit.to_dataframe()
    assert len(frame) == len(audit.rank_correlations)
    assert frame["tau"].tolist() == [row.tau for row in audit.rank_correlations]
    shown = replace(audit, model=ModelRecord("<script>", None, "M", "classification"))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert f"{audit.of_layer(3)[1].tau:.2f} [" in shown
    assert audit.verdict.answer in shown


def test_the_old_name_of_the_rank_correlations_still_works(audit):
    with pytest.warns(WhenceWarning, match="is now called rank_correlations"):
        assert audit.agreements == audit.rank_correlations


def test_progress_and_repeatability():
    seen = []
    first = audit_attention(
        tiny_models.tiny("bert"), TEXTS, measures=["shapley"], seed=5, progress=lambda *step: seen.append(step)
    )
    second = audit_attention(tiny_models.tiny("bert"), TEXTS, measures=["shapley"], seed=5)
    assert first.rank_correlations == second.rank_correlations
    assert ("shapley", 3, 3) in seen
    assert seen[-1] == ("attention", 3, 3)


def test_attention_that_is_the_importance_is_ranked_alike():
    """A planted truth: a measure whose scores are the attention itself has τ 1; its reverse −1."""
    from whence.attention.audit_statistics import AuditStatistics

    weights = np.array([[0.1, 0.2, 0.3, 0.4]])
    statistics = AuditStatistics([np.concatenate([weights, 1 - weights])])
    statistics.add(1, 0, weights)
    same, reverse = (row for row in statistics.rank_correlations(["same", "reverse"], seed=0) if row.head is None)
    assert (same.tau, reverse.tau) == (1, -1)
    assert next(statistics.measure_correlations(["same", "reverse"], seed=0)).tau == -1


def run(*arguments, **settings):
    return CliRunner().invoke(app, ["audit", *arguments], **settings)


def test_the_command(tmp_path):
    data = tmp_path / "reviews.csv"
    data.write_text("text,label\n" + "".join(f'"{text}",1\n' for text in TEXTS))
    model = tiny_models.build("bert")
    model.save_pretrained(tmp_path / "model")
    tiny_models.wordpiece().save_pretrained(tmp_path / "model")
    options = ["--model", str(tmp_path / "model"), "--measures", "gradient"]
    result = run("--data", str(data), "--out", str(tmp_path / "out"), *options)
    assert result.exit_code == 0, result.output
    assert "attention audit" in result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"audit.json", "audit.html", "rank_correlation.png", "heads.png"}
    as_json = run(*TEXTS, "--json", *options)
    assert json.loads(as_json.stdout)["n_texts"] == 3
    written = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert written["rank_correlations"] == json.loads(as_json.stdout)["rank_correlations"]
    from_stdin = run("-", "--json", "--queries", "first", *options, input="\n".join(TEXTS))
    assert json.loads(from_stdin.stdout)["queries"] == "first"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no text to audit"),
        (["a film", "--data", "x.csv"], "texts were given, and --data too"),
        (["a film", "--measures", "gradients"], "unknown method 'gradients'"),
        (["a film", "--queries", "some"], "unknown queries 'some'"),
    ],
)
def test_wrong_use_of_the_command(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
