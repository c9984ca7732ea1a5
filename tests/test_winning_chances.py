"""Winning chances: the stored tables against played matches, what they look like, look-ups in kernels, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.search.fit_winning_chances import fit_winning_chances
from agents.search.winning_chances import (
    chance_of,
    chance_table,
    load_winning_chances,
    save_winning_chances,
    value_of_end,
)
from fivesup_env import Match
from fivesup_env.rules.state import BLOCKED, OUT, STATE, WON, num_sides
from fivesup_env.search import playouts, step_states
from fivesup_env.vector_env import FivesUpVectorEnv
from tests.playing import SEATS

DATA = Path(__file__).parent.parent / "agents" / "search" / "data"


@pytest.mark.parametrize(
    ("seats", "scores", "starter"),
    [
        (2, [0, 0], 0),
        (2, [0, 0], -1),
        (2, [150, 200], 1),
        (2, [300, 300], 0),
        (2, [290, 300], 1),
        (2, [275, 280], -1),
        (3, [0, 0, 0], 0),
        (3, [200, 250, 225], 2),
        (3, [300, 270, 265], 1),
        (3, [295, 270, 265], 1),
        (3, [285, 300, 290], -1),
        (4, [0, 0], 3),
        (4, [-30, 200], 0),
        (4, [300, 250], 1),
        (4, [295, 250], 1),
        (4, [270, 300], -1),
    ],
)
def test_stored_chances_against_played_matches(seats: int, scores: list[int], starter: int) -> None:
    matches, sides = 20_000, num_sides(seats)
    env = FivesUpVectorEnv(matches, num_players=seats)
    env.reset(seed=987_654, options={"scores": scores, **({"starter": starter} if starter >= 0 else {})})
    states = env.states.copy()
    playouts(states, np.zeros(matches, np.uint64), until="match")
    won = np.bincount(states["result_of"], minlength=sides) / matches
    stored = load_winning_chances(seats)
    chances = stored(np.array([scores]), np.array([starter]))[0]
    error = np.sqrt(chances * (1 - chances) / matches + stored.error_max**2)
    assert (abs(won - chances) < 4 * error).all(), (won, chances)


@pytest.mark.parametrize("seats", SEATS)
def test_stored_chances_are_symmetric_and_sum_to_one(seats: int) -> None:
    stored, sides = load_winning_chances(seats), num_sides(seats)
    rng = np.random.default_rng(1)
    scores = rng.integers(stored.lowest // 5, 61, (5000, sides)) * 5
    by_seat = [stored(scores, np.full(5000, starter)) for starter in range(seats)]
    for starter, chances in enumerate(by_seat):
        assert (chances >= 0).all() and (chances < 1).all()
        np.testing.assert_array_equal(chances.sum(axis=1), 1)
        turned = stored(np.roll(scores, -starter, axis=1), np.zeros(5000, np.int64))
        np.testing.assert_array_equal(np.roll(chances, -starter, axis=1), turned)
    np.testing.assert_allclose(stored(scores, np.full(5000, -1)), np.mean(by_seat, axis=0), rtol=0, atol=1e-7)
    assert stored.table.shape == (seats + 1, *[(305 - stored.lowest) // 5] * sides, *[1] * (3 - sides), sides)
    assert stored.table.dtype == np.float32 and stored.table.flags.c_contiguous


def test_what_is_stored() -> None:
    found = [load_winning_chances(seats) for seats in SEATS]
    assert [stored.lowest for stored in found] == [0, 0, -50]
    assert {stored.source for stored in found} == {"greedy"}
    for stored in found:
        assert 0 < stored.error_rms < 0.001 and stored.error_rms < stored.error_max < 0.003
    assert sum(file.stat().st_size for file in DATA.glob("winning_chances_*.npz")) < 600_000


def own_steps(seats: int, others: int, starter: int) -> NDArray[np.float64]:
    """What side 0 gains by five points at 0, 5, ..., 295, with every other side at `others`."""
    scores = np.full((61, num_sides(seats)), others)
    scores[:, 0] = np.arange(0, 305, 5)
    return np.diff(load_winning_chances(seats)(scores, np.full(61, starter))[:, 0])


@pytest.mark.parametrize("seats", SEATS)
def test_more_points_are_better_but_for_the_last_five(seats: int) -> None:
    chances = chance_table(seats)[..., 0].astype(np.float64)  # of side 0, by its need on axis 1
    steps = chances[:, :-1] - chances[:, 1:]
    assert steps[:, 1:].min() > -0.0002
    assert (steps[:, 0].min() > -0.0002) == (seats == 2)


@pytest.mark.parametrize("others", range(0, 295, 5))
def test_who_does_not_start_is_better_off_at_295_than_at_300(others: int) -> None:
    for seats in (3, 4):
        assert own_steps(seats, others, 1)[-1] < 0 < own_steps(seats, others, 0)[-1]


@pytest.mark.parametrize("others", range(250, 305, 5))
@pytest.mark.parametrize("seats", SEATS)
def test_the_step_to_295_is_the_largest_and_the_step_to_300_small(seats: int, others: int) -> None:
    steps = own_steps(seats, others, -1)
    assert steps.argmax() == 290 // 5
    assert steps[-1] < steps[-2] / 2


@pytest.mark.parametrize(
    ("seats", "starter", "to_295", "to_300"),
    [
        (2, -1, 0.1004, 0.0271),
        (2, 0, 0.0991, 0.0461),
        (2, 1, 0.1016, 0.0080),
        (3, -1, 0.1475, 0.0062),
        (3, 0, 0.1638, 0.0475),
        (3, 1, 0.1406, -0.0208),
        (3, 2, 0.1383, -0.0080),
        (4, -1, 0.1015, 0.0118),
        (4, 0, 0.1041, 0.0348),
        (4, 1, 0.0988, -0.0113),
    ],
)
def test_the_last_two_steps_with_the_others_at_275(seats: int, starter: int, to_295: float, to_300: float) -> None:
    steps = own_steps(seats, 275, starter)
    allowed = 3 * load_winning_chances(seats).error_max  # of tables fitted to other rounds
    assert steps[-2:] == pytest.approx([to_295, to_300], abs=allowed)


def test_how_much_better_295_can_be_than_300() -> None:
    """Over all scores of 100 to 290 of the others, for a side that does not start."""
    own, others = np.array([295, 300]), np.arange(100, 295, 5)
    three = np.stack(np.meshgrid(own, others, others, indexing="ij"), axis=-1)
    four = np.stack(np.meshgrid(own, others, indexing="ij"), axis=-1)
    for seats, starter, scores, most in ((3, 1, three, 0.0226), (3, 2, three, 0.0105), (4, 1, four, 0.0211)):
        stored = load_winning_chances(seats)
        flat = scores.reshape(-1, scores.shape[-1])
        at_295, at_300 = stored(flat, np.full(len(flat), starter))[:, 0].reshape(2, -1)
        better = at_295 - at_300
        assert better.min() > 0
        assert better.max() == pytest.approx(most, abs=3 * stored.error_max)


def last_events(seats: int, score: int, starter: int, rounds: int) -> NDArray[np.int64]:
    """Points of the events by which side 0 wins the match from this score in a single round, the others at 150."""
    env = FivesUpVectorEnv(rounds, num_players=seats)
    env.reset(seed=8, options={"scores": [score] + [150] * (num_sides(seats) - 1), "starter": starter})
    states = env.states.copy()
    playouts(states, np.zeros(rounds, np.uint64))
    won = states[(states["result"] == WON) & (states["result_of"] == 0)]
    event = won["events"][np.arange(len(won)), won["num_events"] - 1].astype(np.int64)
    points: NDArray[np.int64] = event[:, 1] + event[:, 2] - event[:, 3]
    return points


@pytest.mark.parametrize("starter", [0, 1])
@pytest.mark.parametrize("seats", SEATS)
def test_why_295_can_be_better_than_300(seats: int, starter: int) -> None:
    """At 300 five points alone win. At 295 ten do, too: for a seat that moves late that is the better chance."""
    from_295, from_300 = (last_events(seats, score, starter, 20_000) for score in (295, 300))
    assert set(from_300) == {5}
    assert set(from_295) == {5, 10}  # five after five, or ten at once
    assert np.mean(from_295 == 10) > 0.6
    assert (len(from_295) > len(from_300)) == (seats > 2 and starter == 1)


def test_a_search_loads_no_code_that_fits_tables() -> None:
    fitting = {"agents.search.fit_winning_chances", "agents.search.round_boxes"}
    code = f"import sys, agents.search.pimc; print(*sys.modules.keys() & {fitting})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("seats", SEATS)
def test_kernels_look_up_what_a_call_returns(seats: int) -> None:
    scores = {2: [260, 285], 3: [285, 270, 280], 4: [280, 265]}[seats]
    env = FivesUpVectorEnv(500, num_players=seats)
    env.reset(seed=1, options={"scores": scores})
    states = env.states.copy()
    playouts(states, np.zeros(500, np.uint64))
    assert set(states["result"]) == {OUT, BLOCKED, WON}
    stored, table, sides = load_winning_chances(seats), chance_table(seats), num_sides(seats)
    for state in states[np.r_[:100, np.flatnonzero(states["result"] == BLOCKED)[:20]]]:
        values = [float(value_of_end(state, table, side)) for side in range(sides)]
        if state.result == WON:
            assert values == [float(side == state.result_of) for side in range(sides)]
            continue
        starter = int(state.result_of) if state.result == OUT else -1
        assert values == stored(state.scores[None, :sides], np.array([starter]))[0].tolist()
        needs = [305 - int(score) for score in state.scores]
        looked_up = [chance_of(table, needs[0], needs[1], needs[2], starter, side) for side in range(sides)]
        assert values == [float(chance) for chance in looked_up]


def test_needs_beyond_the_table_count_as_its_edge() -> None:
    for seats, lowest in ((2, 0), (3, 0), (4, -50)):
        stored, starters = load_winning_chances(seats), np.array([0, 0])
        far, edge = stored(np.array([[lowest - 100] + [250] * (num_sides(seats) - 1)] * 2), starters)
        assert far.tolist() == edge.tolist()
        at_edge = stored(np.array([[lowest] + [250] * (num_sides(seats) - 1)]), starters[:1])[0]
        assert far.tolist() == at_edge.tolist()
        assert float(chance_of(stored.table, 405 - lowest, 55, 55, 0, 1)) == far[1]


def test_a_lower_target_is_a_head_start() -> None:
    scores = np.array([[0, 0], [25, 95], [70, 5]])
    low = load_winning_chances(2, target=100)
    starters = np.array([0, -1, 1])
    assert low(scores, starters).tolist() == load_winning_chances(2)(scores + 205, starters).tolist()
    ended = np.array([Match.from_setup({"num_players": 2, "hands": [["1|4"], ["1|1"]], "target": 100}).state], STATE)
    playouts(ended, np.zeros(1, np.uint64))  # seat 0 opens with five points and goes out; 2 pips round to nothing
    expected = low(np.array([[5, 0]]), np.array([0]))[0, 0]
    assert float(value_of_end(ended[0], low.table, 0)) == expected


@pytest.mark.parametrize("seats", SEATS)
def test_environments_pay_by_the_stored_chances(seats: int) -> None:
    stored = load_winning_chances(seats)
    env = FivesUpVectorEnv(50, num_players=seats, episode="round", reward="win", win_table=stored)
    scores = {2: [270, 240], 3: [285, 270, 280], 4: [280, 265]}[seats]
    _, infos = env.reset(seed=4, options={"sampler": lambda seeds: ([scores] * len(seeds), [-1] * len(seeds))})
    side_of_seat = np.arange(seats) % num_sides(seats)
    results = []
    for _ in range(60):
        before, actions = env.states.copy(), infos["action_mask"].argmax(axis=1)
        _, _, terminated, _, infos = env.step(actions)
        for row in np.flatnonzero(terminated):
            ended = before[row : row + 1].copy()
            step_states(ended, actions[row : row + 1])
            paid = stored(np.array([scores]), before["starter"][[row]].astype(np.int64))[0]
            gained = [float(value_of_end(ended[0], stored.table, int(side))) - paid[side] for side in side_of_seat]
            np.testing.assert_allclose(infos["rewards"][row], gained, rtol=0, atol=1e-6)
            results.append(int(ended[0].result))
    assert set(results) == {OUT, BLOCKED, WON} and len(results) > 50


@pytest.mark.parametrize(
    ("scores", "starters", "fault"),
    [
        ([[0, 305]], [0], r"scores\[0\] must be multiples of five below 305 \(R10, R20\), not \[0, 305\]"),
        ([[0, 5], [3, 5]], [0, 0], r"scores\[1\] must be multiples of five"),
        ([[0, 5, 5]], [0], r"scores must be ints \[K, 2\], not int64\[1, 3\]"),
        ([0, 5], [0], r"scores must be ints \[K, 2\], not int64\[2\]"),
        ([[0.0, 5.0]], [0], r"scores must be ints \[K, 2\], not float64"),
        ([[0, 5]], [2], r"starters\[0\] must be a seat within 0 .. 1, or -1 for the lot, not 2"),
        ([[0, 5]], [-2], "not -2"),
        ([[0, 5]], [0, 1], r"starters must be 1 ints, not int64\[2\]"),
        ([[0, 5]], [0.0], r"starters must be 1 ints, not float64\[1\]"),
    ],
)
def test_impossible_scores_and_starters(scores: Any, starters: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        load_winning_chances(2)(np.array(scores), np.array(starters))


@pytest.mark.parametrize("seats", SEATS)
def test_files_keep_everything(seats: int, tmp_path: Path) -> None:
    fitted = fit_winning_chances(seats, 2000, 2**64 - 1, batches=2, target=40, policy="random")
    save_winning_chances(fitted, tmp_path / "own.npz")
    found = load_winning_chances(seats, path=tmp_path / "own.npz")
    assert found.table.tobytes() == fitted.table.tobytes()
    for name in ("num_players", "source", "rounds", "seed", "error_rms", "error_max", "target", "lowest"):
        assert getattr(found, name) == getattr(fitted, name), name
    assert [file.name for file in tmp_path.iterdir()] == ["own.npz"]
    with pytest.raises(ValueError, match=r"own\.npz: target must be within 5 .. 40, not 45"):
        load_winning_chances(seats, path=tmp_path / "own.npz", target=45)


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"num_players must be within 2 .. 4, not 5"):
        load_winning_chances(5)
    with pytest.raises(ValueError, match=r"target must be within 5 .. 305, not 310"):
        load_winning_chances(2, target=310)
    with pytest.raises(ValueError, match="target must be a multiple of five"):
        load_winning_chances(2, target=42)
    with pytest.raises(FileNotFoundError):
        load_winning_chances(2, path=tmp_path / "none.npz")
    with pytest.raises(ValueError, match="a table for num_players=2, not 3"):
        load_winning_chances(3, path=DATA / "winning_chances_2.npz")
    stored, broken = (DATA / "winning_chances_2.npz").read_bytes(), tmp_path / "broken.npz"
    for content in (b"", b"scores", stored[:2000], stored[:-4000] + bytes(4000)):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"broken.npz holds no winning chances"):
            load_winning_chances(2, path=broken)
    np.savez(broken, version=1)
    with pytest.raises(ValueError, match=r"broken.npz holds no winning chances: .*steps"):
        load_winning_chances(2, path=broken)
    np.savez(broken, version=2)
    with pytest.raises(ValueError, match="version 2, not 1"):
        load_winning_chances(2, path=broken)
