"""The page: its structure, its figures against the results, its bytes, its file."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agents.arena.report import write_report
from agents.arena.result_texts import short_names
from agents.arena.terminal import terminal_table
from tests.results import Results, estimate, example, pair_of, results_of, three_seats, without_estimates

ROOT = Path(__file__).parent.parent
HOSTILE = '<b onclick=\'x()\'>&amp; "$x^2$" \n id="figure_1" 骨牌 #0072b2'


# The page


class Page(HTMLParser):
    """The elements of a page, checked for nesting, with the text in each; the rows of its tables; its plots' parts."""

    EMPTY = ("meta", "link", "img", "br", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []  # (tag it is in, text)
        self.tables: dict[str, list[list[str]]] = {}  # the first of each name
        self.drawings: dict[str, list[tuple[str, dict[str, str], str]]] = {}  # by the id of their title
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        if tag == "table":
            self.rows: list[list[str]] = []
            self.tables.setdefault(values["aria-label"], self.rows)
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "svg":
            self.drawing = self.drawings[values["aria-labelledby"].split("-title")[0]] = []
        if "svg" in self.open:
            self.drawing.append((tag, values, ""))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))
        if "tr" in self.open:
            self.rows[-1][-1] += data
        if self.open and self.open[-1] == "text":
            self.drawing[-1] = (*self.drawing[-1][:2], data)

    def all(self, attribute: str) -> list[str]:
        return [values[attribute] for _, values in self.elements if attribute in values]

    def labels(self, drawing: str) -> list[str]:
        return [text for tag, _, text in self.drawings[drawing] if tag == "text"]


def run_python(code: str, results: Results, *arguments: str, **variables: str) -> str:
    """What a fresh interpreter prints that is given the results on its standard input."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        input=json.dumps(results),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout


def text_of(results: Results) -> str:
    pytest.importorskip("matplotlib")
    from agents.arena.report import page

    return page(results)


@pytest.fixture(scope="module")
def example_page() -> Page:
    return Page(text_of(example()))


def variants() -> dict[str, Results]:
    """Results that a page has to show, each with something that is seldom there or seldom missing."""
    one_block = pair_of("greedy", "random", low=None, high=None, course=[[2, 0.5, None, None]], margins=[[5, 1]])
    unrated = pair_of("clairvoyant", "clairvoyant-2")
    return {
        "null": without_estimates(),
        "one block": results_of(one_block, ratings=[{"agent": "greedy", "elo": 0.0, "low": None, "high": None}]),
        "three seats": three_seats(),
        "hostile": results_of(pair_of(HOSTILE, "greedy")),
        "nobody rated": results_of(unrated, cheats=("clairvoyant", "clairvoyant-2")),
    }


@pytest.mark.parametrize("name", [None, *variants()])
def test_a_page_is_well_formed_and_needs_nothing_from_outside(name: str | None) -> None:
    text = text_of(variants()[name] if name else example())
    page = Page(text)
    assert re.findall(r"https?:|//\w|@import|url\((?!#)", text) == []
    assert {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "b", "object"} == set()
    assert not [name for _, values in page.elements for name in values if name.startswith("on")]
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    targets = [target.removeprefix("#") for target in page.all("href") + re.findall(r"url\((.*?)\)", text)]
    assert set(targets) | {label for labels in page.all("aria-labelledby") for label in labels.split()} <= set(ids)


def test_every_plot_has_a_title_and_a_description(example_page: Page) -> None:
    assert sum(tag == "svg" for tag, _ in example_page.elements) == 2 + 2 * 13
    for parts in example_page.drawings.values():
        assert [tag for tag, _, _ in parts[:2]] == ["title", "desc"]
    descriptions = [text for tag, text in example_page.texts if tag == "desc"]
    assert len(descriptions) == 28 and all(len(text) > 40 for text in descriptions)


def test_agents_are_named_in_full_and_cheating_is_marked(example_page: Page) -> None:
    rows = example_page.tables["Agents"]
    new, best = "runs/candidate-with-belief-features/", "runs/selfplay-2p-large/"
    assert [row[0] for row in rows] == [
        "Agent",
        f".../step_0040000000 {new}checkpoints/step_0040000000",
        f".../step_0020000000 {best}checkpoints/step_0020000000",
        *("pimc:50", "greedy", "random", "clairvoyant cheats"),
    ]
    against = [row[1] for row in example_page.tables["Pairs"] if row[1].startswith("clairvoyant")]
    assert against == ["clairvoyant cheats"] * 4
    assert "clairvoyant*" in " ".join(example_page.labels("rates"))


def test_a_hostile_name_stays_text() -> None:
    text = text_of(results_of(pair_of(HOSTILE, "greedy")))
    page = Page(text)
    shown = HOSTILE.replace("\n", r"\n")
    assert page.tables["Agents"][1][0].endswith(shown)
    assert page.all("title").count(shown) == 5  # agents, pairs, twice the sides, and the heading of the pair
    label = short_names([HOSTILE], 39)[HOSTILE]
    assert page.labels("ratings")[-2:] == [f"{label} (+50.0)", "greedy (-50.0)"]
    assert label.endswith("#0072b2")  # a colour of the plots, but here it is part of a name


def shown(value: Any, form: str) -> str:
    """An estimate as tables have it."""
    return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"


def three_digits(seconds: float) -> str:
    """Milliseconds below 1000 with three significant digits, in decimals."""
    text = f"{1000 * seconds:.2e}"
    return f"{float(text):.{max(0, 2 - int(text.split('e')[1]))}f}"


def test_the_tables_have_the_numbers_of_the_results(example_page: Page) -> None:
    results = example()
    ratings = {rating["agent"]: rating for rating in results["ratings"]}
    nash = {row["agent"]: row for row in results["nash"]}
    by_name = {agent["name"]: agent for agent in results["agents"]}
    for row, name in zip(example_page.tables["Agents"][1:-1], ratings, strict=True):
        rating, time = ratings[name], by_name[name]["seconds_per_decision"]
        assert row[1] == shown({**rating, "mean": rating["elo"]}, "+.1f")
        assert row[2] == f"{nash[name]['weight']:.3f}"
        assert row[3] == (f"{nash[name]['skill']:+.3f}" if nash[name]["skill"] else "0.000")
        low, high = (three_digits(time[end]) for end in ("low", "high"))
        assert row[4:] == [f"{three_digits(time['mean'])} [{low}, {high}]", str(by_name[name]["forfeits"])]
    assert example_page.tables["Agents"][-1][1:4] == ["-", "-", "-"]
    sides = iter(example_page.tables["Points, rates and times of each side"][1:])
    for row, pair in zip(example_page.tables["Pairs"][1:], results["pairs"], strict=True):
        assert row[2:] == [
            shown({**pair, "mean": pair["win_rate"]}, ".3f"),
            pair["decided"] or "-",
            "0.500",
            f"{pair['matches']:,}",
            f"{pair['blocks']:,}",
            shown(pair["margin_per_round"], "+.2f"),
            shown(pair["rounds_per_match"], ".2f"),
            shown(pair["blocked_rate"], ".3f"),
        ]
        for side in "ab":
            assert next(sides)[2:] == [
                *(shown(pair[f"points_{side}"][source], ".2f") for source in ("placements", "going_out", "blocked")),
                *(shown(pair[f"{event}_rate_{side}"], ".3f") for event in ("going_out", "refused")),
                three_digits(pair[f"seconds_per_decision_{side}"]),
                str(pair[f"forfeits_{side}"]),
            ]
    assert next(sides, None) is None
    first = results["pairs"][0]
    assert example_page.tables["Margins"][1:] == [
        [f"{margin:+d}", f"{rounds:,}"] for margin, rounds in first["margins"]
    ]
    course = [[f"{matches:,}", f"{rate:.3f} [{low:.3f}, {high:.3f}]"] for matches, rate, low, high in first["course"]]
    assert example_page.tables["Course"][1:] == course
    assert example_page.tables["Versions"][1:] == [list(version) for version in results["versions"].items()]


def test_command_forfeits_and_decisions_are_told(example_page: Page) -> None:
    texts = [text.strip() for _, text in example_page.texts]
    assert f"python evaluate.py {' '.join(example()['command'])}" in texts
    assert ": 3 matches forfeited: no answer within 5 s; action 17 is not legal" in texts
    assert [text for tag, text in example_page.texts if tag == "strong"] == ["better", "better", "open"]


def test_partners_have_a_source_of_their_own() -> None:
    pair = pair_of("greedy", "random")
    pair["points_a"]["partner"] = estimate(-1.5, 0.25)
    rows = Page(text_of(results_of(pair, players=4))).tables["Points, rates and times of each side"]
    assert [row[5] for row in rows] == ["Points: partner", "-1.50 [-1.75, -1.25]", "-"]


def test_where_nothing_is_known_the_page_says_so() -> None:
    page = Page(text_of(without_estimates()))
    texts = [text for _, text in page.texts]
    assert {"There are no ratings.", "There are no win rates.", "There are no rounds."} < set(texts)
    assert "There is no course of the win rate." in texts
    assert page.tables["Pairs"][1] == ["greedy", "random", "-", "-", "0.500", "0", "0", "-", "-", "-"]
    assert page.tables["Agents"][1] == ["greedy", "-", "-", "-", "-", "0"]


# Plots


def test_with_two_sides_a_pair_fills_both_boxes_and_with_three_seats_one() -> None:
    cells = re.compile(r"\d\.\d\d")
    two = Page(text_of(results_of(pair_of("greedy", "random", 0.75))))
    assert [label for label in two.labels("rates") if cells.fullmatch(label)] == ["0.75", "0.25"]
    assert [label for label in Page(text_of(three_seats())).labels("rates") if cells.fullmatch(label)] == [
        "0.50",
        "0.12",
    ]


def test_a_box_is_coloured_by_its_distance_from_the_even_share() -> None:
    def colour(rate: float, even: float) -> str:
        page = Page(text_of(results_of(pair_of("greedy", "random", rate, even=even), players=3)))
        fills = [values["style"] for tag, values, _ in page.drawings["rates"] if tag == "path" and "style" in values]
        (box,) = (style for style in fills if "fill: #" in style)
        return box

    assert colour(1 / 3, 1 / 3) == colour(0.5, 0.5) == "fill: #f5f5f5"
    assert colour(2 / 3, 1 / 3) == colour(0.75, 0.5)
    assert colour(1 / 6, 1 / 3) == colour(0.25, 0.5)
    assert (colour(1.0, 1 / 3), colour(0.0, 1 / 3)) == ("fill: #338cd9", "fill: #e6731a")


def numbers(path: str) -> list[list[float]]:
    """The corners of a drawn line: its letters left out, one [x, y] a line."""
    return [[float(word) for word in line.split()[1:]] for line in path.strip().splitlines() if line.strip("zZ ")]


def test_bars_are_as_high_as_their_shares_of_the_rounds() -> None:
    page = Page(text_of(results_of(pair_of("greedy", "random"))))
    bars = {}
    for _, values, _ in page.drawings["pair-1-margins"]:
        if values.get("style", "").startswith("fill: var("):
            corners = numbers(values["d"]) if "d" in values else []
            if len(corners) == 4:
                heights = [y for _, y in corners]
                bars[values["style"]] = (sum(x for x, _ in corners) / 4, max(heights) - min(heights))
    left, middle, right = (bars[f"fill: var(--{colour})"] for colour in ("orange", "muted", "blue"))
    assert middle[1] / left[1] == pytest.approx(2) and right[1] / left[1] == pytest.approx(5)
    assert (right[0] - middle[0]) / (middle[0] - left[0]) == pytest.approx(2)  # margins of -5, 0 and +10


def test_ratings_and_course_are_drawn_to_scale() -> None:
    ratings = [("a", 100.0), ("b", 50.0), ("c", -150.0)]
    rows = [{"agent": name, "elo": elo, "low": elo - 25, "high": elo + 25} for name, elo in ratings]
    page = Page(text_of(results_of(pair_of("a", "b"), pair_of("a", "c"), ratings=rows)))
    bars = [numbers(values["d"]) for _, values, _ in page.drawings["ratings"] if "stroke-width: 3" in str(values)]
    (a, _), (b, _), (c, _) = ((left, right) for (left, _), (right, _) in bars)
    assert (a - c) / (a - b) == pytest.approx(5)
    assert bars[0][1][0] - bars[0][0][0] == pytest.approx(a - b)  # 50 wide, 50 apart
    lines = [
        numbers(values["d"]) for _, values, _ in page.drawings["pair-1-course"] if "stroke-width: 2" in str(values)
    ]
    dashed = [numbers(values["d"]) for _, values, _ in page.drawings["pair-1-course"] if "dasharray" in str(values)]
    ((_, first), (_, last)), ((_, even), _) = lines[0], dashed[0]
    assert (even - first) / (even - last) == pytest.approx(0.25 / 0.125)


def test_outside_the_heat_map_all_colours_are_the_style_sheets(example_page: Page) -> None:
    css = (ROOT / "agents" / "arena" / "data" / "report.css").read_text(encoding="utf-8")
    used: set[str] = set()
    for name, parts in example_page.drawings.items():
        styles = " ".join(values.get("style", "") for _, values, _ in parts)
        used |= set(re.findall(r"var\(--(\w+)\)", styles))
        if name != "rates":
            assert re.findall(r"#[0-9a-f]{3,6}", styles) == []
    assert used == {"ink", "muted", "line", "blue", "orange"}
    assert all(css.count(f"--{name}: #") == 2 for name in used)  # light and dark


# The file


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    results = results_of(pair_of("greedy", "random"), version=2)
    for refuse in (terminal_table, lambda results: write_report(results, tmp_path / "report.html")):
        with pytest.raises(ValueError, match=r"^version 2 of the results is not known: this is for version 1$"):
            refuse(results)
    assert list(tmp_path.iterdir()) == []


def test_the_same_results_give_the_same_bytes_whatever_is_set(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    results = results_of(pair_of("greedy", "random"))
    write_report(results, tmp_path / "first.html")
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "other", "axes.grid": True}):
        write_report(copy.deepcopy(results), tmp_path / "second.html")
    code = (
        "import json, sys; from agents.arena.report import write_report; "
        "write_report(json.load(sys.stdin), sys.argv[1])"
    )
    run_python(code, results, str(tmp_path / "third.html"), PYTHONHASHSEED="5", SOURCE_DATE_EPOCH="0")
    first, second, third = ((tmp_path / f"{name}.html").read_bytes() for name in ("first", "second", "third"))
    assert first == second == third
    assert first.decode() == text_of(results)


def test_a_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def full(*_: object) -> None:
        assert path.read_text(encoding="utf-8") == "old"
        raise OSError("no space left")

    results = results_of(pair_of("greedy", "random"))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
        patch.setattr(os, "replace", full)
        write_report(results, path)
    broken = copy.deepcopy(results)
    del broken["pairs"][0]["course"]
    with pytest.raises(KeyError, match="course"):
        write_report(broken, path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8") == "old"
    write_report(results, path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_matplotlib_is_loaded_for_plots_only() -> None:
    code = (
        "import json, sys; from agents.arena.terminal import terminal_table; terminal_table(json.load(sys.stdin));"
        "print('matplotlib' in sys.modules)"
    )
    assert run_python(code, example()) == "False\n"


def test_the_stored_example_is_consistent() -> None:
    results = example()
    names = [agent["name"] for agent in results["agents"]]
    played = {(pair["a"], pair["b"]) for pair in results["pairs"]}
    assert set(itertools.combinations(names[:5], 2)) < played and len(played) == 13
    assert math.isclose(sum(rating["elo"] for rating in results["ratings"]), 0, abs_tol=0.1)
    for pair in results["pairs"]:
        assert pair["course"][-1] == [pair["matches"], pair["win_rate"], pair["low"], pair["high"]]
        assert pair["matches"] == 2 * pair["blocks"]
    forfeits = sum(pair["forfeits_a"] + pair["forfeits_b"] for pair in results["pairs"])
    assert forfeits == sum(agent["forfeits"] for agent in results["agents"])
