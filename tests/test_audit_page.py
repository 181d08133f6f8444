"""The page of an audit: the same numbers as the audit, in words first, and nothing in it can act."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_models
from test_page import data_of
from typer.testing import CliRunner

from whence.attention.audit import audit_attention
from whence.attention.audit_record import AttentionAudit
from whence.cli import app
from whence.explanation import ModelRecord

TEXTS = ["a good film", "the story is not bad at all", "good and witty and bad"]


@pytest.fixture(scope="module")
def audit() -> AttentionAudit:
    return audit_attention(tiny_models.tiny("bert"), TEXTS, measures=["gradient", "leave_one_out"])


def test_the_page_holds_the_numbers_of_the_audit(audit: AttentionAudit, tmp_path: Path) -> None:
    content = audit.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text() == content
    data = data_of(content)
    assert data["answer"] == audit.verdict.answer
    assert data["reasons"] == list(audit.verdict.reasons)
    assert data["warnings"] == list(audit.warnings)
    for layer, row in zip(audit.layers, data["byLayer"], strict=True):
        for mine, shown in zip(audit.of_layer(layer), row, strict=True):
            assert shown[:4] == pytest.approx([mine.tau, mine.low, mine.high, mine.tie_null], abs=1e-4)
            assert shown[4:] == [mine.n_undefined, mine.excess_low > 0]
    heads = {(row.measure, row.layer, row.head): row.tau for row in audit.rank_correlations if row.head}
    for measure, table in zip(audit.measures, data["heads"], strict=True):
        for layer, row in zip(audit.layers, table, strict=True):
            assert row == pytest.approx([heads[measure, layer, head + 1] for head in range(len(row))], abs=1e-4)


def test_pairs_in_the_right_order_are_another_way_to_say_tau(audit: AttentionAudit) -> None:
    best = max(
        (sum(row.excess for row in audit.of_layer(layer)) / len(audit.measures), layer) for layer in audit.layers
    )
    coin, attention, measure = data_of(audit.to_html())["pairs"]
    assert coin[1] == 50
    assert attention[0] == f"attention of layer {best[1]}, its best"
    assert attention[1] == pytest.approx(50 * (1 + best[0]), abs=0.01)
    assert measure[1] == pytest.approx(50 * (1 + audit.between[0].excess), abs=0.01)
    assert attention[2] <= attention[1] <= attention[3]


def test_an_audit_of_nothing_has_a_page_too(audit: AttentionAudit) -> None:
    """No text could be ranked: numbers that are none are none on the page as well."""
    nothing = audit_attention(tiny_models.tiny("bert"), ["good"], measures=["gradient"])
    data = data_of(nothing.to_html())
    assert data["answer"].startswith("Nothing can be said")
    assert data["byLayer"][0][0][0] is None
    assert [name for name, *_ in data["pairs"]] == ["a coin"]


def test_nothing_of_a_name_becomes_markup(audit: AttentionAudit) -> None:
    hostile = "</script><script>alert(1)</script>\x1b[31m"
    content = replace(audit, model=ModelRecord(hostile, None, hostile, "classification")).to_html()
    assert content.count("<script") == 2
    assert "\x1b" not in content


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "attention.html"
    result = CliRunner().invoke(app, ["audit", *TEXTS, "--measures", "gradient", "--html", str(page)])
    assert result.exit_code == 0, result.output
    assert f"page: {page}" in result.stderr
    assert data_of(page.read_text())["nTexts"] == 3
    missing = CliRunner().invoke(app, ["audit", "a film", "--html", str(tmp_path / "no" / "page.html")])
    assert missing.exit_code == 2
    assert "there is no folder" in missing.stderr
