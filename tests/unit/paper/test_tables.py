from __future__ import annotations

import csv
import io
import math

import pytest

from palda.paper import Cell, CellRecord, Column, Stat, Table, format_value, summarise, to_csv, to_markdown, to_records

TABLE = Table(
    "A title",
    (Column("method", "method"), Column("f1", "micro-F1"), Column("seconds", "fit, s", 1)),
    ({"method": "a | b", "f1": Stat(0.5, 0.25, 3), "seconds": 123.4}, {"method": "paper", "f1": 0.75}),
    ("A note.",),
)


def test_mean_and_spread_ignore_nan() -> None:
    found = Stat.of([1.0, 2.0, 4.0, math.nan])
    assert found is not None
    assert found.mean == pytest.approx(7 / 3)
    assert found.spread == pytest.approx(math.sqrt(7 / 3))  # sum of squares 14/3, over n - 1 = 2
    assert found.n_seeds == 3


def test_one_seed_has_no_spread_and_no_seed_has_no_statistic() -> None:
    found = Stat.of([0.5])
    assert found is not None
    assert (found.mean, found.n_seeds) == (0.5, 1)
    assert math.isnan(found.spread)
    assert Stat.of([math.nan]) is None


def test_records_are_summarised_measure_by_measure() -> None:
    cells = [Cell("toys", "good", "gold", seed) for seed in range(2)]
    rows = summarise([CellRecord(cells[0], {"f1": 0.25, "rmse": 1.0}), CellRecord(cells[1], {"f1": 0.75})])
    assert list(rows) == ["f1", "rmse"]
    assert rows["f1"] == Stat.of([0.25, 0.75])
    rmse = rows["rmse"]
    assert isinstance(rmse, Stat)
    assert (rmse.mean, rmse.n_seeds) == (1.0, 1)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.7721, 3, ".772"),
        (-0.904, 3, "-.904"),
        (1.0, 3, "1.000"),
        (10.04, 1, "10.0"),
        (0.04, 1, ".0"),
        (123.4, 1, "123"),
        (Stat(0.7721, 0.0031, 5), 3, ".772 ± .003"),
        (Stat(0.7721, math.nan, 1), 3, ".772"),
        (None, 3, ""),
        (math.nan, 3, ""),
        ("text", 3, "text"),
    ],
)
def test_values_are_formatted_with_the_given_number_of_decimals(
    value: Stat | str | float | None, digits: int, text: str
) -> None:
    assert format_value(value, digits) == text


def test_markdown_has_title_header_rows_and_notes() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "**A title**",
        "",
        "| method | micro-F1 | fit, s |",
        "| --- | --- | --- |",
        "| a \\| b | .500 ± .250 | 123 |",
        "| paper | .750 |  |",
        "",
        "A note.",
    ]


def test_csv_and_records_hold_means_spreads_and_numbers_of_seeds() -> None:
    first, second = to_records([TABLE])
    assert first == {
        "table": "A title", "method": "a | b", "f1": 0.5, "f1_spread": 0.25, "f1_seeds": 3, "seconds": 123.4,
    }  # fmt: skip
    assert second == {"table": "A title", "method": "paper", "f1": 0.75}
    rows = list(csv.DictReader(io.StringIO(to_csv([TABLE]))))
    assert [row["f1"] for row in rows] == ["0.5", "0.75"]
    assert [row["f1_spread"] for row in rows] == ["0.25", ""]
