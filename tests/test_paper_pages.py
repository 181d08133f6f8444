"""Every generated page, walked: verdicts follow from their rows, intervals hold their estimates, commands are those of
the records, and no table of numbers is without an n."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import runpy
import shlex
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS, EXPERIMENTS = ROOT / "docs", ROOT / "experiments"
sys.path.insert(0, str(EXPERIMENTS))

from intervals import Interval  # noqa: E402
from verdict import RULE, verdict  # noqa: E402

PAPERS = ("diffmask", "sparse_attention", "decoded_saliency")
WRITERS = {
    "diffmask": "diffmask/write_docs.py",
    "sparse_attention": "sparse_attention/report.py",
    "decoded_saliency": "decoded_saliency/write_page.py",
    "scoreboard": "scoreboard/write_page.py",
    "one_pass": "one_pass/write_page.py",
    "citing": "citing/write_page.py",
    "decoder_baselines": "decoder_baselines/write_page.py",
    "evidence_tokens": "evidence_tokens/write_page.py",
    "real_encoder": "real_encoder/write_page.py",
}
OF_BENCHMARKS = {"scale": DOCS / "scale.md", "benchmarks": ROOT / "benchmarks" / "README.md"}
"""Pages of times and sizes, without verdicts and intervals."""
PAGES = [*WRITERS, *(f"{name}_appendix" for name in PAPERS)]
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
BRACKETED = re.compile(rf"({NUMBER})(?: ± {NUMBER})?(%?) \[({NUMBER})%?, ({NUMBER})%?\]")
HERE_CELL = re.compile(
    rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]; n = ([\d,]+)(?: cells)?, (\d(?: (?:to|x) \d)?) seeds?, [\w ,]+(?:; .+)?"
)
COUNTED_BESIDE = re.compile(r"^n$|\(n\)|^n \(models\)$|^(?:training )?texts$|^sentences$")
ESTIMATE = re.compile(r"\d\.\d|^\d+–\d+$")
"""What is measured on texts: a number with a point, or a range of ranks."""
COUNTED_ABOVE = re.compile(r"\bn = \d|\d (?:texts|sentences|reviews)\b|\bmedian of \d")


class Table(NamedTuple):
    above: str
    head: list[str]
    rows: list[list[str]]


def text_of(page: str) -> str:
    return OF_BENCHMARKS.get(page, DOCS / f"{page}.md").read_text(encoding="utf-8")


def tables(text: str) -> Iterator[Table]:
    """Every table with the paragraph, or the point of a list, above it."""
    above, lines = "", text.splitlines()
    number = 0
    while number < len(lines):
        if not lines[number].startswith("|"):
            paragraph: list[str] = []
            while number < len(lines) and lines[number] and not lines[number].startswith("|"):
                paragraph = [] if lines[number].startswith("- ") else paragraph
                paragraph.append(lines[number])
                number += 1
            above = " ".join(paragraph) or above
            number += not (number < len(lines) and lines[number].startswith("|"))
            continue
        rows = []
        while number < len(lines) and lines[number].startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", lines[number])[1:-1]])
            number += 1
        yield Table(above, rows[0], rows[2:])


def as_number(text: str) -> float:
    return float(text.replace(",", ""))


def judge(cells: list[str]) -> str:
    """The verdict of a row by the rule, from what the row prints."""
    _, said, here, _ = cells
    if (found := HERE_CELL.fullmatch(here)) is None:
        assert not re.search(r"\d\.\d", here), f"a number without interval, n, seeds or split: {here}"
        return "not tried"
    value = Interval(*(as_number(found[number]) for number in (1, 2, 3)))
    if side := re.fullmatch(rf"({NUMBER}), ([<>] 0)", said):
        return verdict(as_number(side[1]), side[2], value)  # type: ignore[arg-type]
    level = re.fullmatch(rf"(at least|at most|about) ({NUMBER})", said)
    assert level is not None, f"no claim of the paper: {said}"
    return verdict(as_number(level[2]), level[1], value)  # type: ignore[arg-type]


def claims_of(page: str) -> list[list[str]]:
    return [row for each in tables(text_of(page)) if each.head[-1:] == ["verdict"] for row in each.rows]


@pytest.mark.parametrize("page", PAPERS)
def test_a_paper_s_page_opens_with_its_claims(page: str) -> None:
    text = text_of(page)
    first = next(tables(text))
    assert first.head == ["claim", "paper", "here", "verdict"]
    assert " ".join(RULE.split()) in " ".join(text.split())
    assert 2 <= text.count("![") <= 3
    assert text.index("|claim|") < text.index("![") < text.index("## What this means for you")
    assert text.count("\n## ") == 1, "everything else is in the appendix"
    assert f"({page}_appendix.md)" in text
    assert re.search(r"\b(asked|met)\b", text) is None


def test_the_first_screens_are_short() -> None:
    assert sum(len(text_of(page).split()) for page in PAPERS) < 1_200


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith((*PAPERS, "real_encoder"))])
def test_each_verdict_follows_from_its_row(page: str) -> None:
    rows = claims_of(page)
    assert rows or page.endswith("appendix")
    for row in rows:
        assert row[3] == judge(row), row


def test_the_walk_finds_a_wrong_verdict() -> None:
    row = ["a claim", "+9.8, > 0", "-9.3 [-13.4, -5.1]; n = 255, 1 seed, dev", "reproduced"]
    assert judge(row) == "reversed"
    assert judge([*row[:2], "0.69 [0.65, 0.74]; n = 12 cells, 1 to 3 seeds, test; 52.2 % masked", ""]) == "reproduced"
    assert judge(["", "at least 0.94", "0.69 [0.65, 0.74]; n = 446, 1 seed, dev", ""]) == "not reproduced"
    with pytest.raises(AssertionError, match="without interval"):
        judge(["", "at least 0.94", "0.69 on dev", ""])


@pytest.mark.parametrize("page", PAGES)
def test_each_interval_holds_its_estimate(page: str) -> None:
    found = BRACKETED.findall(text_of(page))
    assert found
    for value, _, low, high in found:
        assert as_number(low) <= as_number(value) <= as_number(high), f"{value} [{low}, {high}]"


DIFFERENCE = re.compile(rf"({NUMBER})(?: \[({NUMBER}), ({NUMBER})\])?")
BETTER_IF = {"revealing": 1, "hiding": -1}


def words_for(table: Table, row: list[str]) -> set[str]:
    """What may be said of a difference: its sign, and that 0 is not in its interval, if it is called sure."""
    cells = dict(zip(table.head, row, strict=True))
    found = DIFFERENCE.fullmatch(cells["difference"])
    assert found is not None, cells
    value, low, high = (as_number(each) for each in (found[1], found[2] or found[1], found[3] or found[1]))
    if "decoding is" in cells:
        gain = value * BETTER_IF[cells["game"]]
        return {"better" if gain > 0 else "worse"} if float(cells["p"]) < 0.05 else {"not told apart"}
    return {"not told apart", *(["surely above"] if low > 0 else ["surely below"] if high < 0 else [])}


@pytest.mark.parametrize("page", ["one_pass", "decoded_saliency_appendix"])
def test_the_word_beside_a_difference_follows_from_it(page: str) -> None:
    """By Holm over all pairs of a board, a pair may be not told apart though its own interval is beyond 0."""
    found = [table for table in tables(text_of(page)) if "difference" in table.head[:-1]]
    assert found
    for table in found:
        for row in table.rows:
            assert row[-1] in words_for(table, row), row


def test_the_walk_finds_a_wrong_word() -> None:
    board = Table("", ["board", "n", "difference", ""], [])
    assert "surely above" not in words_for(board, ["SST-2", "500", "+0.0050 [-0.0004, +0.0099]", ""])
    assert "surely above" not in words_for(board, ["SST-2", "500", "-0.0050", ""])
    contest = Table("", ["rival", "game", "difference", "p", "decoding is"], [])
    assert words_for(contest, ["layer 0", "hiding", "+0.005 [-0.021, +0.030]", "0.001", ""]) == {"worse"}
    assert words_for(contest, ["layer 0", "hiding", "+0.005 [-0.021, +0.030]", "0.050", ""]) == {"not told apart"}


def test_the_walk_finds_an_interval_that_does_not_hold() -> None:
    assert BRACKETED.findall("16.0% [6.0%, 14.0%] and 0.21 ± 0.25 [-0.17, 0.58] (0.13)") == [
        ("16.0", "%", "6.0", "14.0"), ("0.21", "", "-0.17", "0.58")
    ]  # fmt: skip


def lacks_n(table: Table) -> bool:
    """Whether a table shows numbers and neither its head, nor its rows, nor the paragraph above says of how many."""
    if not any(ESTIMATE.search(cell) for row in table.rows for cell in row):
        return False
    if any(COUNTED_BESIDE.search(cell) for cell in table.head) or COUNTED_ABOVE.search(table.above):
        return False
    with_numbers = {at for row in table.rows for at, cell in enumerate(row) if at and ESTIMATE.search(cell)}
    if all(re.search(r"\bn = \d", table.head[at]) for at in with_numbers):
        return False
    return not all(any(re.search(r"\bn = \d", cell) for cell in row) for row in table.rows if row[-1] != "not tried")


@pytest.mark.parametrize("page", [*PAGES, *OF_BENCHMARKS])
def test_no_number_without_n(page: str) -> None:
    for table in tables(text_of(page)):
        if "(Ferrando et al., 2023): not to be compared" not in table.above:  # of others, who state no one n
            assert not lacks_n(table), (table.above[-200:], table.head)


NOT_MEASURED = re.compile(
    r"(?:Python|torch|transformers|captum|numpy|whence|SQuAD) \d[\w.+]*|multiplier_limit [\d.]+|`[^`]*`|\]\([^)]*\)"
    r"|more than 0\.03 below the paper's accuracy|\d workers write [\d.]+ MB a second"
)
"""Versions, settings, links, and what a page of times multiplies."""
COUNTED_IN_PROSE = re.compile(r"\bn = \d|\d (?:texts|sentences|reviews|prompts)\b|\bmedian of \d")


def sections_without_n(text: str) -> list[str]:
    """The parts of a page, from heading to heading, whose prose has numbers while nothing in them says of how many."""
    found = []
    for part in re.split(
        r"^(?=#+ )", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), flags=re.MULTILINE
    ):
        prose = " ".join(line for line in part.splitlines() if not line.startswith(("|", "![")))
        counted = COUNTED_IN_PROSE.search(part) or any(
            COUNTED_BESIDE.search(cell) for table in tables(part) for cell in table.head
        )
        if ESTIMATE.search(NOT_MEASURED.sub("", prose)) and not counted:
            found.append(part.splitlines()[0])
    return found


@pytest.mark.parametrize("page", [*PAGES, *OF_BENCHMARKS])
def test_no_number_in_prose_without_n(page: str) -> None:
    assert sections_without_n(text_of(page)) == []


def test_the_walk_finds_prose_without_n() -> None:
    found = "# A page\n\nOf n = 14 classifiers 0.35.\n\n## One\n\nHere 0.86, torch 2.13.0+cpu.\n\n## Two\n\ntorch 2.0\n"
    assert sections_without_n(found) == ["## One"]
    assert sections_without_n(found.replace("0.86", "0.86 (n = 7)")) == []


def test_every_page_that_a_script_writes_is_walked() -> None:
    """A page of results, but for the first screens, names the script that wrote it."""
    named = re.compile(r"(?:made|written)\s+by\s+`(?:experiments|benchmarks)/", flags=re.IGNORECASE)
    found = {path for path in ROOT.rglob("*.md") if "build" not in path.parts and ".venv" not in path.parts}
    written = {path for path in found if named.search(path.read_text(encoding="utf-8"))}
    walked = {OF_BENCHMARKS.get(page, DOCS / f"{page}.md") for page in (*PAGES, *OF_BENCHMARKS)}
    assert written == walked - {DOCS / f"{paper}.md" for paper in PAPERS}


def test_the_walk_finds_a_table_without_n() -> None:
    assert lacks_n(Table("Agreement:", ["layer", "agreement"], [["1", "0.94"]]))
    assert lacks_n(Table("Ranks:", ["method", "SST-2"], [["one_pass", "1–2"]]))
    assert not lacks_n(Table("Agreement, n = 872:", ["layer", "agreement"], [["1", "0.94"]]))
    assert not lacks_n(Table("Agreement:", ["layer", "n", "agreement"], [["1", "872", "0.94"]]))
    assert lacks_n(Table("Agreement:", ["layer", "texts without an order", "agreement"], [["1", "3", "0.94"]]))
    assert lacks_n(Table("Agreement:", ["layer", "SST (n = 872)", "IMDb"], [["1", "0.9", "0.94"]]))
    assert not lacks_n(Table("Agreement:", ["layer", "SST (n = 872)", "IMDb (n = 9)"], [["1", "0.9", "0.94"]]))


class ParsedError(Exception):
    """What a script is stopped with once it has read its options."""


def run_script(script: Path, *given: str, name: str = "__main__") -> dict[str, Any]:
    """Runs it here, where torch is there already, and gives what it defines.

    Scripts import their neighbours by flat names, which several folders have: none of them may know another's.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(script), *given])
        patch.setattr(sys, "path", [str(script.parent), *sys.path])
        for neighbour in flat_modules():
            patch.delitem(sys.modules, neighbour)
        try:
            return runpy.run_path(str(script), run_name=name)
        finally:
            for neighbour in flat_modules():
                del sys.modules[neighbour]


def flat_modules() -> list[str]:
    """The modules known by now that are files of experiments, training or benchmarks."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    ours = (EXPERIMENTS, ROOT / "training", ROOT / "benchmarks")
    return [name for name, file in files.items() if file and any(map(Path(file).is_relative_to, ours))]


def commands_in(text: str) -> list[list[str]]:
    lines = re.findall(r"^python ((?:experiments|training)/.*)$", text.replace("\\\n", " "), flags=re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def parsed(commands: list[list[str]]) -> list[dict[str, Any]]:
    """The options of each command as its own script reads them; of one that needs gensim, none."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self: argparse.ArgumentParser, *given: Any) -> None:
        raise ParsedError(vars(parse(self, *given)))

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        for script, *given in (command for command in commands if "word_vectors" not in command[0]):
            with pytest.raises(ParsedError) as stopped:
                run_script(ROOT / script, *given)
            options = json.loads(json.dumps(stopped.value.args[0], default=str))
            found.append({"script": Path(script).stem, **options})
    return found


def record(folder: str, name: str) -> Any:
    return json.loads((EXPERIMENTS / folder / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_commands_of_diffmask_are_those_of_its_records() -> None:
    found = parsed(commands_in(text_of("diffmask_appendix")))
    tuned = {Path(each["out"]).name: each for each in found if each["script"] == "finetune"}
    for folder, name in (("sst5", "sst"), ("sst5-gaps", "sst_gaps"), ("squad", "squad")):
        model = record("diffmask", name)["model"]
        for option in ("task", "epochs", "batch", "rate", "seed", "gaps", "agreement", "phrase_epochs"):
            assert tuned[folder][option] == model.get(option, 0), (folder, option)
    [questions] = [each for each in found if each["script"] == "squad"]
    squad = record("diffmask", "squad")
    assert (questions["questions"], questions["search_budget"]) == (
        squad["n_drawn"], squad["figure_2"]["search"]["budget"]
    )  # fmt: skip
    [digits], toy = [each for each in found if each["script"] == "toy"], record("diffmask", "toy")
    assert (digits["seeds"], digits["texts"], digits["held_out"]) == (toy["seeds"], toy["n_texts"], toy["n_held_out"])
    assert digits["steps"] == toy["probes"]["steps"]
    for command in (each for each in found if each["script"] == "table2"):
        own = record("diffmask", "table2_gru" if command["model"] == "gru" else "table2_bert")
        search = own["search"]
        limited = search["sentences"] if search["sentences"] < search["short_enough"] else None
        assert (command["seeds"], command["budget"], command["limit"]) == (own["seeds"], search["budget"], limited)
        assert (command["longest"], command["split"]) == (search["longest"], own["split"])
        assert {each["drawn"] for each in own.get("tuned", {}).values()} == {command["tune"]} - {None}
        if command["model"] == "gru":
            assert (command["epochs"], command["width"]) == (own["model"]["epochs"], own["model"]["width"])
        assert {row["settings"]["steps"] for row in own["rows"].values()} == {command["steps"]}
    assert len([each for each in found if each["script"] == "table2"]) == 2


def test_the_probes_are_fitted_as_their_records_say() -> None:
    runs = run_script(EXPERIMENTS / "diffmask" / "fit_probes.py", name="fit_probes")["USUAL"]
    recorded = {f"sst5-{key}": run for key, run in record("diffmask", "sst")["runs"].items()}
    recorded |= {f"sst5-gaps-{key}": run for key, run in record("diffmask", "sst_gaps")["runs"].items()}
    embedded = record("diffmask", "sentiment")
    for kind in ("input", "hidden"):
        recorded[f"squad-{kind}"] = record("diffmask", "squad")[kind]
        recorded |= {f"{name}-{kind}": embedded[name][kind] for name in ("sentiment", "topic")}
    assert set(recorded) == set(runs)
    for name, (_, _, _, kind, _, seed, changes) in runs.items():
        settings = recorded[name]["settings"]
        assert (settings["kind"], settings["seed"]) == (kind, seed), name
        for option, value in changes.items():
            assert settings["recipe"][option] == value, (name, option)


def test_a_real_encoder_s_probes_are_fitted_as_their_records_say() -> None:
    """With the margin that the rule chooses of the margins on record."""
    script = run_script(EXPERIMENTS / "diffmask" / "fit_probes.py", name="fit_probes")
    recorded = record("real_encoder", "probes")
    assert set(recorded) <= set(script["REAL"])
    chosen = {}
    for kind, wanted in script["WANTED"]["sst5"].items():
        tried = [{"margin": own["recipe"]["margin"], **script["judged"](own["results"], kind)}
                 for name, own in recorded.items() if name.startswith(f"mpnet-sst5-0-{kind}-margin")]  # fmt: skip
        assert tuple(each["margin"] for each in tried) == script["MARGINS"]["sst5"][kind]
        chosen[kind] = script["best"](tried, wanted)["margin"]
    for name, own in recorded.items():
        _, _, _, kind, _, seed, changes = script["REAL"][name]
        assert (own["kind"], own["seed"]) == (kind, seed), name
        for option, value in changes.items():
            assert own["recipe"][option] == (chosen[kind] if value == script["CHOSEN"] else value), (name, option)


def test_the_commands_of_sparse_attention_are_those_of_its_records() -> None:
    commands = commands_in(text_of("sparse_attention_appendix"))
    results = record("sparse_attention", "results")
    trained = [results["vectors"], *(each["vectors"] for each in results.get("later_runs", {}).values())]
    vectors = [given for script, *given in commands if "word_vectors" in script]
    for about, given in zip([each for each in trained if each is not None], vectors, strict=True):
        options = dict(zip(given[0::2], given[1::2], strict=True))
        assert (options["--size"], options["--epochs"]) == (str(about["size"]), str(about["epochs"]))
        assert about["algorithm"] == "skip-gram"
        assert "--cbow" not in given
    found = [each for each in parsed(commands) if each["script"] == "run"]
    plan = run_script(EXPERIMENTS / "sparse_attention" / "training_plan.py", name="training_plan")
    tried: dict[tuple[str, str, str], set[tuple[float, float]]] = {}
    for trial in results["trials"]:
        job = trial["job"]
        rates = tried.setdefault((job["data"], job["encoder"], job["projection"]), set())
        rates.add((trial["learning_rate"], trial["attention_speed"]))
        assert (trial["max_epochs"], trial["patience"]) == plan["EPOCHS"][job["data"]], job
    for group in results["classifiers"]:
        control = group["control"] != "none" or group["vectors"] != "trained"
        table = "controls" if control else "2" if group["projection"].startswith("sparsegen") else "6"
        [command] = [each for each in found if each["data"] == [group["data"]] and table in each["table"]]
        where = (group["data"], group["encoder"], group["projection"], group["control"], group["vectors"])
        assert command["seeds"] == group["seeds"], where
        assert command["work"] == folder_of(group), where
        for training in filter(None, group["training"]):
            longest, patience = plan["EPOCHS"][group["data"]]
            assert (training["max_epochs"], training["patience"]) == (command["max_epochs"] or longest, patience), where
            settled = plan["setting"](group["data"], group["encoder"], group["projection"])
            assert (training["learning_rate"], training["attention_speed"]) in tried[settled], where
        n_measured = command["n_measured"] or group["sizes"]["test"]
        assert n_measured == group["documents"]["n_words"]["n_documents"], where
        if "forms" in group:
            assert command["sample"] == group["forms"]["tau"]["n_documents"], where
    for search in results["adversaries"]:
        job = search["job"]
        [command] = [each for each in found if each["data"] == [job["data"]] and "5" in each["table"]
                     and job["encoder"] in each["encoders"]]  # fmt: skip
        assert job["seed"] in command["seeds"]
        assert command["work"] == folder_of(search)
        for each in search["adversaries"]:
            assert each["test"]["settings"]["max_epochs"] == command["adversary_epochs"]
    for (data, encoder, _), rates in tried.items():
        for command in (each for each in found if each["data"] == [data] and encoder in each["encoders"]):
            wanted = itertools.product(command["rates"] or plan["RATES"][encoder], command["attention_speeds"])
            assert rates == set(wanted), (data, encoder)


ALMOST_UNIFORM = 0.99
CELLS = {"BiLSTM, additive": "bilstm", "Transformer, dot": "transformer"}
CONTROLS = {
    "trained": ("none", "trained"), "untrained": ("untrained", "trained"),
    "random labels": ("random labels", "trained"), "random word vectors": ("none", "random"),
}  # fmt: skip
RANKS = re.compile(
    r"^τ |^at the attention|^weight set to 0|^before the last|^at the input|^through the|^attention const"
)


def ranks_by_cell(table: Table) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a table of sparse attention says of attention's order of words: of which classifiers, and what."""
    for row in table.rows:
        cells = dict(zip(table.head, row, strict=True))
        projection = cells.get("attention", cells.get("λ", ""))
        if cells.get("encoder") not in CELLS or projection == "" or "adversary" in cells:
            continue
        number = re.fullmatch(r"-?[\d.]+", projection)
        sparse = "sparsemax" if projection == "0" else f"sparsegen({projection})" if number else projection
        kind = CONTROLS[cells.get("classifier", "trained")]
        for head, cell in cells.items():
            named = re.match(r"(IMDb|20News|SST) (?:gradient|leave-one-out) ", head)
            if named or RANKS.search(head):
                yield (named[1] if named else cells["set"], CELLS[cells["encoder"]], sparse, *kind), cell


def test_every_order_by_uniform_attention_is_flagged() -> None:
    entropies: dict[tuple[str, ...], float] = {
        (group["data"], group["encoder"], group["projection"], group["control"].replace("_", " "), group["vectors"]): (
            group["documents"]["entropy attention"]["mean"]
        )
        for group in record("sparse_attention", "results")["classifiers"]
    }
    found = [each for table in tables(text_of("sparse_attention_appendix")) for each in ranks_by_cell(table)]
    assert len(found) > 500
    assert 50 < sum("†" in cell for _, cell in found) < 200
    for where, cell in found:
        assert ("†" in cell) == (entropies[where[0].lower(), *where[1:]] >= ALMOST_UNIFORM), (where, cell)


def test_sparse_attention_says_its_seeds_in_every_table() -> None:
    """With three of them each is printed, and the interval is wide enough for what they differ by."""
    by_seed = re.compile(rf"({NUMBER}) ± {NUMBER} \[({NUMBER}), ({NUMBER})\] \(({NUMBER}), ({NUMBER}), ({NUMBER})\)")
    n_wide = 0
    for table in tables(text_of("sparse_attention_appendix")):
        if any("IMDb" in cell for row in (table.head, *table.rows) for cell in row):
            assert any("seed" in cell for row in (table.head, *table.rows) for cell in row) or "seed 0" in table.above
        for value, low, high, *seeds in by_seed.findall(" ".join(cell for row in table.rows for cell in row)):
            spread = 4.303 * statistics.stdev(map(float, seeds)) / 3**0.5  # Student's t, two degrees of freedom
            lowest, highest = max(-1, float(value) - spread), min(1, float(value) + spread)
            assert float(low) <= lowest + 0.03, "numbers are rounded"
            assert float(high) >= highest - 0.03
            n_wide += 1
    assert n_wide > 50
    assert "IMDb with one seed and without controls" in " ".join(text_of("sparse_attention").split())


def folder_of(group: dict[str, Any]) -> str:
    """Each run has its own."""
    return "-".join(["WORK", *group.get("run", "").split()])


def test_a_later_run_of_some_tables_has_its_own_folder_in_their_commands() -> None:
    results = record("sparse_attention", "results")
    for group in results["classifiers"]:
        if group["data"] == "imdb" and group["projection"] in ("softmax", "sparsemax"):
            group |= {"seeds": [0, 1, 2], "run": "three seeds"}
    module = run_script(EXPERIMENTS / "sparse_attention" / "commands.py", name="commands")
    found = [line.split("run.py ")[1] for line in module["runs"](results, ["imdb"])]
    assert found[:2] == [
        "--table 1 3 6 --data imdb --seeds 0 1 2 --n-measured 1000 --sample 6 --work WORK-three-seeds",
        "--table 2 --data imdb --seeds 0 --n-measured 1000 --sample 6 --work WORK",
    ]


def test_the_commands_of_decoded_saliency_are_those_of_its_records() -> None:
    held_to_their_records(parsed(commands_in(text_of("decoded_saliency_appendix"))), DECODED)


DECODED = EXPERIMENTS / "decoded_saliency" / "results"


def held_to_their_records(commands: list[dict[str, Any]], results: Path) -> None:
    """The commands of decoded saliency: one of each script for every record there is, with its settings."""
    kinds = {"tables": "games", "overlap": "overlap", "finetune": "training"}
    made = []
    for command in (each for each in commands if each["script"] in kinds):
        kind = kinds[command["script"]]
        if kind == "training":
            [path] = [each for each in results.rglob("*-training.json")
                      if json.loads(each.read_text())["knobs"]["out"] == Path(command["out"]).name]  # fmt: skip
            made.append(path)
            knobs = json.loads(path.read_text())["knobs"]
            files = ("pretrained", "train", "heldout", "out")
            given = {name: Path(value).name if name in files else value for name, value in command.items()}
            assert {name: given[name] for name in knobs} == knobs
            continue
        for data in command["sets"]:
            folder = Path(command["out"]).as_posix().partition("results/")[2]
            path = results / folder / f"{data}-{kind}.json"
            made.append(path)
            found = json.loads(path.read_text())
            games = json.loads(path.with_name(f"{data}-games.json").read_text())
            assert command["seed"] == found["seed"]
            assert command["jobs"] == games["jobs"]
            assert (command["device"] == "cpu") == ("cores" in found["hardware"])
            n_texts = {"sst2": 872, "ag_news": 7_600}[data]
            assert found["n_texts"] == min(command["sample"] or n_texts, n_texts)
            assert command["model"] is None or Path(command["model"]).name == games["model"]
            assert folder.endswith("ordinary") == (command["model"] is not None)
            assert {each["group"] for each in games["contestants"].values()} >= set(command["groups"])
            assert (command["no_ablations"], command["random_orders"]) == (not games["floor"], games["random_orders"])
    assert sorted(made) == sorted(results.rglob("*.json"))
    assert commands[-1]["script"] == "write_page"


def of_all_texts(name: str, **changes: Any) -> dict[str, Any]:
    """The record of a sample as if the paper's explainers alone had been played, on all texts."""
    found = grown(name, **changes)
    if "contestants" in found:
        groups = ("decoded", "undecoded", "package", "random")
        found["contestants"] = {
            called: facts for called, facts in found["contestants"].items() if facts["group"] in groups
        }
        rivals = set(found["contestants"])
        found["differences"] = [row for row in found["differences"] if row["rival"] in rivals]
        found |= {"floor": {}, "random_orders": 5}
    return found


@pytest.mark.parametrize("parts", [["games"], ["games", "overlap"], ["games", "overlap", "ordinary"], ["ordinary"]])
def test_all_texts_stand_beside_the_sample_and_bear_the_claims(parts: list[str], tmp_path: Path) -> None:
    results, out = shutil.copytree(DECODED, tmp_path / "results"), tmp_path / "page.md"
    shutil.rmtree(results / "all_texts", ignore_errors=True)
    (results / "all_texts" / "ordinary").mkdir(parents=True)
    made = {f"ag_news-{kind}": of_all_texts(f"ag_news-{kind}") for kind in ("games", "overlap") if kind in parts}
    if "ordinary" in parts:
        training = record("decoded_saliency", "ordinary/ag_news-training")
        training["knobs"]["out"] = "topic-again"
        made["ordinary/ag_news-training"] = training
        made["ordinary/ag_news-games"] = of_all_texts("ordinary/ag_news-games", model="topic-again")
        made["ordinary/ag_news-overlap"] = of_all_texts("ordinary/ag_news-overlap")
    for name, found in made.items():
        (results / "all_texts" / f"{name}.json").write_text(json.dumps(found))
    run_script(EXPERIMENTS / WRITERS["decoded_saliency"], "--results", str(results), "--out", str(out))
    page, more = (tmp_path / name for name in ("page.md", "page_appendix.md"))
    first, second = (path.read_text(encoding="utf-8") for path in (page, more))
    rows = {row[0]: row for row in next(tables(first)).rows}
    for row in rows.values():
        assert row[3] == judge(row), row
    on_all = "n = 3,800, 1 seed, half of test"
    assert (on_all in rows["AG News, hiding: decoded − Shapley"][2]) == ("games" in parts)
    assert (on_all in rows["AG News, hiding: decoded − Shapley, ordinary"][2]) == ("ordinary" in parts)
    assert ("n = 7,600, 1 seed, test" in rows["AG News, overlap: decoded − paper's rival"][2]) == ("overlap" in parts)
    assert ("all 7,600 test texts of AG News, ordinary" in rows) == ("ordinary" not in parts)
    assert ("all 7,600 test texts of AG News, embedded" in rows) == ("games" not in parts)
    assert "## All texts" in second
    assert ("**AG News, all 7,600 texts**" in second) == ("games" in parts)
    assert "random the mean of 5 orders" in " ".join(second.split())
    assert ("Overlap, n = 7,600:" in second) == (parts != ["games"])
    for table in tables(second):
        assert not lacks_n(table), table.head
    held_to_their_records(parsed(commands_in(second)), results)


def test_the_commands_of_diffmask_s_readme_are_those_of_its_page() -> None:
    readme = (EXPERIMENTS / "diffmask" / "README.md").read_text(encoding="utf-8")
    assert parsed(commands_in(readme)) == parsed(commands_in(text_of("diffmask_appendix")))


@pytest.mark.parametrize("folder", ["diffmask", "sparse_attention", "scoreboard"])
def test_the_commands_of_a_readme_parse(folder: str) -> None:
    assert parsed(commands_in((EXPERIMENTS / folder / "README.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", WRITERS)
def test_a_page_is_what_its_script_writes(page: str, tmp_path: Path) -> None:
    """So that nobody mends a page by hand."""
    pages = tmp_path / "docs"
    figures = pages / "figures" / page
    figures.mkdir(parents=True)
    shutil.copy(ROOT / "README.md", tmp_path)  # of which one writes a table
    for drawn in (DOCS / "figures" / page).glob("toy-figure-12.png"):  # by the run itself, not by the page's script
        shutil.copy(drawn, figures)
    run_script(EXPERIMENTS / WRITERS[page], "--out", str(pages / f"{page}.md"))
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")
    written = {path.name: path.read_text(encoding="utf-8") for path in pages.glob("*.md")}
    assert len(written) == 1 + (page in PAPERS)
    for name, text in written.items():
        assert text == (DOCS / name).read_text(encoding="utf-8"), name


def test_the_page_of_benchmarks_is_what_its_script_writes() -> None:
    lines = run_script(ROOT / "benchmarks" / "write_readme.py", name="write_readme")["lines"]
    assert "\n".join(lines) + "\n" == text_of("benchmarks")


def grown(name: str, **changes: Any) -> dict[str, Any]:
    """The record of a sample of AG News as if all test texts had been taken."""
    found = {**record("decoded_saliency", name), "n_texts": 7_600, "hardware": "NVIDIA H200, TF32", **changes}
    if "differences" in found:
        found |= {"n_choosing": 3_800, "n_reporting": 3_800, "jobs": 6}
        found["differences"] = [{**row, "n": 3_800} for row in found["differences"]]
    return found


@pytest.mark.parametrize("holds", [True, False])
def test_results_that_are_still_to_come_find_their_place(holds: bool, tmp_path: Path) -> None:
    """All texts of AG News, for both models: what was not tried goes, and claims, sizes and commands follow."""
    results, out = shutil.copytree(DECODED, tmp_path / "results"), tmp_path / "page.md"
    shutil.rmtree(results / "all_texts")  # what has come since stands above what is made up here
    played = grown("ag_news-games", model="topic-ordinary")
    for row in played["differences"]:
        if "layer 0" in row["what"] and not holds:
            row |= {"mean": 0.001, "low": -0.002, "high": 0.004, "p": 0.6}
    training = record("decoded_saliency", "ordinary/sst2-training")
    training["knobs"] |= {"out": "topic-ordinary", "train": "topic_train.jsonl", "epochs": 2.0, "labels": ["a", "b/c"]}
    for name, made in {
        "ag_news-games": grown("ag_news-games"), "ag_news-overlap": grown("ag_news-overlap"),
        "ordinary/ag_news-games": played, "ordinary/ag_news-overlap": grown("ag_news-overlap"),
        "ordinary/ag_news-training": training,
    }.items():  # fmt: skip
        (results / f"{name}.json").write_text(json.dumps(made))
    run_script(EXPERIMENTS / WRITERS["decoded_saliency"], "--results", str(results), "--out", str(out))
    page, more = (tmp_path / name for name in ("page.md", "page_appendix.md"))
    first, second = (" ".join(path.read_text(encoding="utf-8").split()) for path in (page, more))
    assert "not tried" not in first
    assert "n = 3,800, 1 seed, half of test|" in first
    assert "a test sample" not in first
    told = "**After an ordinary fine-tuning decoding was not surely better than layer 0** "
    assert f"{told}{'(SST-2); it was on AG News.' if holds else '(SST-2, AG News).'}" in first
    assert "AG News, n = 7,600: Table 2 on this model" in second
    for path in (page, more):
        for table in tables(path.read_text(encoding="utf-8")):
            assert not lacks_n(table), table.head
            for row in table.rows if table.head[-1] == "verdict" else ():
                assert row[3] == judge(row), row
    held_to_their_records(parsed(commands_in(more.read_text(encoding="utf-8"))), results)
    others = sum(len(text_of(each).split()) for each in PAPERS if each != "decoded_saliency")
    assert len(first.split()) + others < 1_200
