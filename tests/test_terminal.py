"""The terminal's table line by line; numbers and names as text."""

from __future__ import annotations

import itertools

import pytest

from agents.arena.result_texts import milliseconds, number, short_names
from agents.arena.terminal import terminal_table
from tests.results import pair_of, results_of, three_seats


def test_the_table_of_a_small_evaluation() -> None:
    checkpoint = "runs/a-name-that-says-much/checkpoints/step_0010000000"
    pairs = [
        pair_of(checkpoint, "greedy", matches=12000, decided="better"),
        pair_of("clairvoyant", "greedy", 0.9, low=0.885, high=0.915),
        pair_of("greedy", "clairvoyant", None, low=None, high=None, matches=0, decided="open"),
    ]
    results = results_of(*pairs, cheats=("clairvoyant",))
    results["agents"][1].update(forfeits=2, forfeit_reasons=["took too long", "action 17 is not\nlegal"])
    results["agents"][2]["seconds_per_decision"] = None
    assert terminal_table(results).splitlines() == [
        "2 seats, seed 7, 3 pairs, 12,200 matches",
        "",
        "a                    b             win rate   95 % interval  matches  decided",
        ".../step_0010000000  greedy           0.625  [0.562, 0.688]   12,000  better",
        "clairvoyant*         greedy           0.900  [0.885, 0.915]      200  -",
        "greedy               clairvoyant*         -               -        0  open",
        "",
        "agent                  Elo   95 % interval   Nash   skill  ms/decision  forfeits",
        ".../step_0010000000  +50.0  [+30.0, +70.0]  1.000   0.000         12.5         0",
        "greedy               -50.0  [-70.0, -30.0]  0.000  -0.125         12.5         2",
        "clairvoyant*             -               -      -       -            -         0",
        "",
        "* sees hidden tiles: it cheats, and is not rated.",
        ".../step_0010000000 = runs/a-name-that-says-much/checkpoints/step_0010000000",
        r"greedy: 2 matches forfeited: took too long; action 17 is not\nlegal",
    ]


def test_three_seats_are_explained_and_a_column_without_decisions_is_left_out() -> None:
    lines = terminal_table(three_seats()).splitlines()
    assert lines[2:5] == [
        "a       b       win rate   95 % interval  matches",
        "greedy  random     0.500  [0.562, 0.688]      200",
        "random  greedy     0.125  [0.562, 0.688]      200",
    ]
    assert lines[-1] == "With three seats one a plays against two b: an even share is 0.333."


def test_eight_long_names_fit_and_the_key_has_them_all() -> None:
    names = [f"runs/self-play-with-three-{run}/checkpoints/step_{step:010}" for run in "abc" for step in (1000, 2000)]
    names += [f"pimc:worlds=400,seconds=0.25,playout=greedy,belief={belief}" for belief in ("counts", "uniform")]
    text = terminal_table(results_of(*(pair_of(a, b) for a, b in itertools.combinations(names, 2))))
    assert max(map(len, text.splitlines())) <= 100
    keys = dict(line.split(" = ") for line in text.splitlines() if " = " in line)
    assert list(keys.values()) == names
    assert [line.split()[:2] for line in text.splitlines()[3:31]] == [
        list(two) for two in itertools.combinations(keys, 2)
    ]


@pytest.mark.parametrize(
    ("names", "shorts"),
    [
        (["greedy", "random"], ["greedy", "random"]),
        (["runs/first/checkpoints/best", "greedy"], [".../best", "greedy"]),
        (["runs/first/checkpoints/step_09", "greedy"], [".../step_09", "greedy"]),
        (["pimc:worlds=400,seconds=0.25"], ["pimc:wor...nds=0.25"]),
        (
            ["long/path/a/checkpoints/final", "long/path/b/checkpoints/final"],
            ["...a/che...ts/final", "...b/che...ts/final"],
        ),
        (["x" * 40 + "a" + "y" * 40, "x" * 40 + "b" + "y" * 40], ["...ayyyy...yyyyyyyy", "...byyyy...yyyyyyyy"]),
        (["x" * 8 + "a" + "y" * 80, "x" * 8 + "a" + "y" * 81], ["...xxxxx...yyyy~1", "...xxxxx...yyyy~2"]),
        (["a\tb", "\udcff"], [r"a\tb", r"\udcff"]),
    ],
)
def test_short_names(names: list[str], shorts: list[str]) -> None:
    assert short_names(names, 19) == dict(zip(names, shorts, strict=True))


def test_numbers() -> None:
    assert [number(value) for value in (None, 0.12345, -0.0001, 1234.5)] == ["-", "0.123", "0.000", "1,234.500"]
    assert [number(value, 1, sign=True) for value in (2.25, -0.04, -2)] == ["+2.2", "0.0", "-2.0"]
    seconds = (None, 0.0, 3.1234e-7, 0.000999, 0.0123456, 0.56789, 4.5678)
    assert [milliseconds(value) for value in seconds] == ["-", "0", "0.000312", "0.999", "12.3", "568", "4,568"]
