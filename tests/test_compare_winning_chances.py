"""Tables of winning chances compared: where they differ, what they lose in matches, the command."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy")

from agents.agent import make_agent
from agents.search.compare_winning_chances import (
    RoundStarts,
    difference,
    losses,
    main,
    mean_of_rounds,
    round_starts,
)
from agents.search.fit_winning_chances import fit_winning_chances
from agents.search.winning_chances import WinningChances, load_winning_chances, save_winning_chances
from tests.playing import SEATS


def changed(seats: int, place: tuple[int, ...], by: float) -> WinningChances:
    """The stored table with one chance changed; `place` is that in the array."""
    stored = load_winning_chances(seats)
    table = stored.table.copy()
    table[place] += np.float32(by)
    return replace(stored, table=table)


def test_where_tables_differ() -> None:
    """Level 1 needs 10 points, level 20 needs 105; row 2 of the array is for seat 1 as the starter."""
    found = difference(load_winning_chances(2), changed(2, (2, 1, 20, 0, 1), -0.125))
    assert (found.scores, found.starter, found.side) == ([295, 200], 1, 1)
    assert found.largest == pytest.approx(-0.125)
    assert found.mean == pytest.approx(0.125 / (2 * 61 * 61 * 2))
    found = difference(load_winning_chances(3), changed(3, (3, 0, 9, 60, 2), 0.5))
    assert (found.scores, found.starter, found.side) == ([300, 255, 0], 2, 2)
    assert found.largest == pytest.approx(0.5)


def test_what_a_table_loses() -> None:
    """Match 0 has two rounds and side 1 wins, match 1 has one; the table gives its later winner nothing."""
    table = changed(2, (1, 0, 60, 0, 0), 0).table.copy()
    table[1, 60, 60, 0] = 0.75, 0.25
    table[2, 0, 60, 0] = 0.5, 0.5
    table[2, 60, 0, 0] = 0.0, 1.0
    chances = replace(load_winning_chances(2), table=table)
    starts = RoundStarts(
        np.array([0, 1, 0]), np.array([[0, 0], [0, 300], [300, 0]]), np.array([0, 1, 1]), np.array([1, 0, 1])
    )
    found = losses(chances, starts)
    assert found == pytest.approx([log(4), 17 * log(2), log(2)])  # as if the 0 were half a step
    mean = mean_of_rounds(np.array([1.0, 4.0, 1.0]), starts)
    assert mean.mean == pytest.approx(2)
    # Residuals from the ratio are -2 and 2 in two matches, 12.7062 is Student's quantile for one degree of freedom.
    assert mean.high - mean.mean == pytest.approx(12.7062 * (2 * 8) ** 0.5 / 3, rel=1e-5)


@pytest.mark.parametrize("seats", SEATS)
def test_round_starts_are_those_of_whole_matches(seats: int) -> None:
    told: list[int] = []
    starts = round_starts(make_agent("greedy"), seats, 50, 7, progress=told.append)
    assert told == sorted(told) and told[-1] == 50
    assert set(starts.matches.tolist()) == set(range(50))
    for number in range(50):
        rounds = starts.matches == number
        assert not starts.scores[rounds][0].any()
        assert len(set(starts.winners[rounds].tolist())) == 1
    assert len(set(starts.winners.tolist())) == starts.scores.shape[1]
    assert len(set(starts.starters.tolist())) == seats


def test_the_table_of_an_agents_own_play_loses_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "random.npz"
    save_winning_chances(fit_winning_chances(2, 16_000, 3, policy="random"), path)
    assert main([str(path), "--agent", "random", "--matches", "3000", "--seed", "1"]) == 0
    out, err = capsys.readouterr()
    assert "3000 of 3000 matches" in err
    assert f"{path}: 16,000 rounds of random, seed 3\nless the stored table, of greedy: " in out
    starts = round_starts(make_agent("random"), 2, 3000, 1)
    change = losses(load_winning_chances(2, path=path), starts) - losses(load_winning_chances(2), starts)
    mean = mean_of_rounds(change, starts)
    assert mean.high < 0
    assert f"file - stored  {mean.mean:+.5f} [{mean.low:+.5f}, {mean.high:+.5f}]\n" in out


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["{tmp}/none.npz", "--agent", "greedy"], "argument FILE: "),
        (["{tmp}/broken.npz", "--agent", "greedy"], "broken.npz holds no winning chances"),
        (["{tmp}/three.npz", "--agent", "greedy"], "three.npz holds a table for num_players=3, not 2"),
        (["{tmp}/small.npz", "--agent", "greedy"], "small.npz: target must be within 5 .. 40, not 305"),
        (["{tmp}/good.npz", "--agent", "nobody"], "argument --agent: no agent 'nobody'"),
        (["{tmp}/good.npz", "--agent", "clairvoyant:1"], "argument --agent: agent 'clairvoyant:1' sees hidden tiles"),
        (["{tmp}/good.npz"], "required: --agent"),
        (["{tmp}/good.npz", "--agent", "greedy", "--matches", "1"], "--matches: must be within 2 .. 1000000, not 1"),
    ],
)
def test_commands_refused(arguments: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.npz").write_bytes(b"scores")
    save_winning_chances(load_winning_chances(2), tmp_path / "good.npz")
    save_winning_chances(load_winning_chances(3), tmp_path / "three.npz")
    small = fit_winning_chances(2, 1000, 1, batches=1, target=40)
    save_winning_chances(small, tmp_path / "small.npz")
    with pytest.raises(SystemExit) as exit_status:
        main([argument.format(tmp=tmp_path) for argument in arguments])
    assert exit_status.value.code == 2
    assert fault in capsys.readouterr().err
