"""A corpus as a stream of records: every dialect, encoding and compression gives the same texts."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from whence.data import streams
from whence.data.columns import find_columns
from whence.data.records import records_of
from whence.errors import FileError, UnknownNameError

TEXTS = ['a "fine", long film', "so dull;\nso dull", "größe 日本", "x" * 300]


def texts_of(path: Any, **settings: Any) -> list[str | None]:
    return [record.text for record in records_of(path, **settings).each()]


def quoted(text: str, mark: str = '"') -> str:
    return mark + text.replace(mark, mark * 2) + mark


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_csv_of_any_dialect(
    tmp_path: Path, separator: str, end: str, encoding: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PIECE", max(piece, 64) if encoding == "utf-16" else piece)
    rows = [f"nr{separator}text", *(f"{number}{separator}{quoted(text)}" for number, text in enumerate(TEXTS))]
    (tmp_path / "a.csv").write_bytes((end.join(rows) + end).encode(encoding))
    found = records_of(tmp_path / "a.csv")
    assert [record.text for record in found.each()] == TEXTS
    assert any("UTF-16" in note for note in found.notes) == (encoding == "utf-16")


@pytest.mark.parametrize(
    "content",
    [
        "'nr';'text'\n'1';'it''s; fine'\n",
        'nr,text\r1,"it\'s; fine"\r',
        'nr, text\n1, "it\'s; fine"\n',
        "nr\ttext\n1\tit's; fine\n",
        'nr,text\n1,it\'s; fine\n2,"say \\"no\\", twice"\n',
    ],
)
def test_odd_dialects(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert texts_of(tmp_path / "a.csv")[0] == "it's; fine"
    if "say" in content:
        assert texts_of(tmp_path / "a.csv")[1] == 'say "no", twice'


def test_compressed_files(tmp_path: Path) -> None:
    content = "".join(f"text {number}\n" for number in range(500)).encode()
    packed = {
        "gz": gzip.compress(content), "bz2": bz2.compress(content), "xz": lzma.compress(content),
        "zst": pa.Codec("zstd").compress(content, asbytes=True), "": content,
    }  # fmt: skip
    for suffix, some in packed.items():
        path = tmp_path / f"a.txt{'.' if suffix else ''}{suffix}"
        path.write_bytes(some)
        found = records_of(path)
        assert [record.text for record in found.each()] == content.decode().splitlines(), suffix
        assert found.about == 500


def test_bad_rows_are_records_with_their_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nfine,1\nno label\nso,so,so\ndull,0\n")
    found = list(records_of(tmp_path / "a.csv").each())
    assert [record.text for record in found] == ["fine", None, None, "dull"]
    assert found[1].error == "line 3 of 'a.csv' has 1 values, but there are 2 columns: text, label"
    assert [record.row for record in found] == [0, 1, 2, 3]


def test_columns_are_found_by_usual_names_or_named() -> None:
    assert find_columns(["Review", "Sentiment"], "a").text == "Review"
    assert find_columns(["premise", "hypothesis", "label"], "a").pair == "hypothesis"
    assert find_columns(["whatever"], "a").text == "whatever"
    assert find_columns(["a", "b"], "x", text="b").text == "b"
    with pytest.raises(UnknownNameError, match="unknown column of x 'c'"):
        find_columns(["a", "b"], "x", text="c")
    with pytest.raises(FileError, match="'x' has no column of a usual name; its columns: a, b"):
        find_columns(["a", "b"], "x")


def test_a_known_set_is_read_as_a_stream(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    rows = [{"sentence": f"text {at}", "label": at % 2, "split": "dev" if at % 3 else "train"} for at in range(9)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "sst2.parquet")
    held_out = records_of("sst2", data_dir=tmp_path)
    assert held_out.notes[0] == "sst2: the part 'dev' (--split all: everything)"
    assert [record.label for record in held_out.each()][:2] == ["positive", "negative"]
    assert len(texts_of("sst2", data_dir=tmp_path)) == 6
    assert len(texts_of("sst2", data_dir=tmp_path, split="all")) == 9
    assert len(texts_of("sst2", data_dir=tmp_path, split="train", limit=2)) == 2
