"""Fits of winning chances against exact solutions; samples; the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.search.fit_winning_chances import RoundSamples, fit_samples, fit_winning_chances, main, samples_of
from agents.search.winning_chances import chance_table, load_winning_chances
from fivesup_env import Match
from fivesup_env.rules.chance import mix
from fivesup_env.rules.play import deal
from fivesup_env.rules.state import OUT, STATE, WON, States, new_state, num_sides
from fivesup_env.search import playouts
from fivesup_env.vector_env import FivesUpVectorEnv
from tests.playing import SEATS

STEP = 1 / 65536  # stored chances are multiples of it

# A target near enough for exact solutions, with the lowest score of its table: partners can fall below 0.
SMALL = {2: (30, 0), 3: (20, 0), 4: (15, -50)}
ROUNDS, SEED = 1000, 5


def scores_of(seats: int) -> NDArray[np.int64]:
    """All scores of the small table, int64[C, S]."""
    target, lowest = SMALL[seats]
    steps = np.arange(lowest, target, 5)
    return np.stack(np.meshgrid(*[steps] * num_sides(seats), indexing="ij"), axis=-1).reshape(-1, num_sides(seats))


def rounds_from_all_scores(seats: int, policy: Any) -> States:
    """The same ROUNDS deals, opened by seat 0 and played to the end from all these scores, one by one: STATE[C, R]."""
    scores, state = scores_of(seats), new_state(seats, target=SMALL[seats][0], seed=SEED)
    states, keys = np.zeros((len(scores), ROUNDS), STATE), np.zeros(ROUNDS, np.uint64)
    for index in range(ROUNDS):
        state.round_number = index + 1
        deal(state, 0)
        states[:, index] = state
        keys[index] = mix(np.uint64(SEED), np.uint64(index + 1))
    for name in ("scores", "round_scores"):
        states[name][..., : scores.shape[1]] = scores[:, None]
    flat = states.reshape(-1)
    playouts(flat, np.tile(keys, len(scores)), policy=policy)
    return states


def exact_chances(seats: int, ended: States) -> NDArray[np.float64]:
    """The chances when seat 0 starts, float64[C, S], from one linear equation for each of them."""
    sides, (target, lowest), scores = num_sides(seats), SMALL[seats], scores_of(seats)
    cell = {tuple(at): index for index, at in enumerate(scores.tolist())}
    matrix, constants = np.eye(len(scores) * sides), np.zeros(len(scores) * sides)
    for index, rounds in enumerate(ended):
        outcomes = (rounds[name].tolist() for name in ("result", "result_of", "scores"))
        for result, of, points in zip(*outcomes, strict=True):
            after = [max(score, lowest) for score in points[:sides]]
            starters = [of] if result == OUT else range(seats)
            assert (result == WON) == (target in after)
            for side in range(sides):
                row = index * sides + side
                if result == WON:
                    constants[row] += (of == side) / ROUNDS
                    continue
                for starter in starters:  # as if seat 0 started, with all seats turned
                    turned = tuple(after[(k + starter) % sides] for k in range(sides))
                    matrix[row, cell[turned] * sides + (side - starter) % sides] -= 1 / ROUNDS / len(starters)
    solution = np.asarray(np.linalg.solve(matrix, constants), np.float64)
    return solution.reshape(-1, sides)


@pytest.mark.parametrize("policy", ["greedy", "random"])
@pytest.mark.parametrize("seats", SEATS)
def test_a_fit_is_the_fixed_point_of_its_rounds_played_from_every_score(seats: int, policy: str) -> None:
    target, lowest = SMALL[seats]
    fitted = fit_winning_chances(seats, ROUNDS, SEED, policy=policy, batches=1, target=target)
    exact = exact_chances(seats, rounds_from_all_scores(seats, policy))
    assert exact.min() > 0 and exact.max() < 1
    np.testing.assert_allclose(exact.sum(axis=1), 1)
    scores = scores_of(seats)
    assert (fitted.lowest, fitted.target) == (lowest, target)
    found = fitted(scores, np.zeros(len(scores), np.int64))
    np.testing.assert_allclose(found, exact, rtol=0, atol=2 * STEP)
    assert np.isnan(fitted.error_max)  # one batch does not tell


@pytest.mark.parametrize("seats", [2, 3])
def test_samples_of_every_score_give_the_same_fixed_point_whoever_starts(seats: int) -> None:
    ended = rounds_from_all_scores(seats, "greedy")
    seen, turn = samples_of(ended.reshape(-1)), np.arange(ended.size) % seats
    turned = RoundSamples(  # the same rounds, with every seat and its score moved on by `turn`
        np.take_along_axis(seen.before, (np.arange(seats) - turn[:, None]) % seats, axis=1),
        turn,
        np.take_along_axis(seen.after, (np.arange(seats) - turn[:, None]) % seats, axis=1),
        np.where(seen.next_starters < 0, -1, (seen.next_starters + turn) % seats),
        np.where(seen.winners < 0, -1, (seen.winners + turn) % seats),
    )
    fitted = fit_samples(seats, turned, target=SMALL[seats][0], prior=1e-6, source="me")
    scores = scores_of(seats)
    found = fitted(scores, np.zeros(len(scores), np.int64))
    np.testing.assert_allclose(found, exact_chances(seats, ended), rtol=0, atol=2 * STEP)
    assert (fitted.source, fitted.rounds) == ("me", ended.size)


def played_rounds(seats: int, matches: int, policy: Any) -> States:
    """All rounds of whole matches, as they ended."""
    env = FivesUpVectorEnv(matches, num_players=seats)
    env.reset(seed=77)
    states, matches_of = env.states.copy(), np.arange(matches)
    ended: list[States] = []
    while len(states):
        keys = np.array([mix(np.uint64(row), np.uint64(len(ended))) for row in matches_of])
        playouts(states, keys, policy=policy)
        ended.append(states.copy())
        goes_on = states["result"] != WON
        states, matches_of = states[goes_on], matches_of[goes_on]
        for state in states:
            Match.from_state(state).next_round()
    return np.concatenate(ended)


def test_samples_of_matches_lead_from_greedy_to_who_played_them() -> None:
    truth = fit_winning_chances(2, 16_000, 3, policy="random").table
    greedy, fitted = chance_table(2), fit_samples(2, samples_of(played_rounds(2, 10_000, "random"))).table
    near = np.s_[:, :20, :20]  # needs up to 100, where it matters who plays
    off, off_before = (np.sqrt(np.mean((table[near] - truth[near]) ** 2)) for table in (fitted, greedy))
    assert off_before > 0.02  # greedy's chances are not theirs
    assert off < off_before / 2


def test_a_sample_stands_for_its_zone() -> None:
    """Needs of 40 and 45 points are one zone. All samples are of 0 to 0: half gained 40 points, half won by 45."""
    count = np.full(500, 1)
    samples = RoundSamples(
        before=np.zeros((1000, 2), np.int64),
        starters=np.zeros(1000, np.int64),
        after=np.stack([np.r_[40 * count, 45 * count], np.zeros(1000, np.int64)], axis=1),
        next_starters=np.full(1000, -1),
        winners=np.r_[-count, 0 * count],
    )
    fitted = fit_samples(2, samples, target=45, prior=1e-6)
    scores = np.array([[5, 0], [5, 0], [5, 0], [5, 40]])
    starts, follows, by_lot, then = fitted(scores, np.array([0, 1, -1, -1]))[:, 0]
    assert 0 < then < 1
    assert starts == pytest.approx((1 + by_lot) / 2, abs=1e-4)  # 40 points from 5 win; 45 are refused
    assert follows == pytest.approx((then + 0) / 2, abs=1e-4)  # for the other side it is as in the samples


def test_where_few_rounds_were_seen_greedy_decides() -> None:
    ended = played_rounds(2, 2, "random").repeat(50)  # from a handful of scores
    fitted = fit_samples(2, samples_of(ended), prior=1e6)
    np.testing.assert_allclose(fitted.table, chance_table(2), rtol=0, atol=0.01)


SAMPLE: dict[str, Any] = {"before": [290, 100], "starters": 0, "after": [295, 110], "next_starters": -1, "winners": -1}


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"before": [305, 100]}, "sample 0: scores before are multiples of five below 305"),
        ({"before": [291, 100]}, "sample 0: scores before"),
        ({"after": [310, 100]}, "sample 0: scores after are multiples of five up to 305"),
        ({"after": [305, 100]}, "sample 0: the winner alone has 305"),
        ({"winners": 1}, "sample 0: the winner alone has 305"),
        ({"winners": 2}, "sample 0: winners are sides or -1"),
        ({"starters": -1}, "sample 0: starters are seats"),
        ({"next_starters": 2}, "sample 0: next starters are seats or -1"),
        ({"before": [290, 100, 0]}, r"before must be ints \[1000, 2\], not int64\[1000, 3\]"),
        ({"winners": 0.5}, r"winners must be ints \[1000\], not float64\[1000\]"),
    ],
)
def test_impossible_samples(wrong: dict[str, Any], fault: str) -> None:
    columns = {name: np.array([value] * 1000) for name, value in {**SAMPLE, **wrong}.items()}
    with pytest.raises(ValueError, match=fault):
        fit_samples(2, RoundSamples(**columns))


def test_impossible_fits() -> None:
    few = RoundSamples(**{name: np.array([value] * 999) for name, value in SAMPLE.items()})
    enough = RoundSamples(**{name: np.array([value] * 1000) for name, value in SAMPLE.items()})
    with pytest.raises(ValueError, match="number of samples must be within 1000"):
        fit_samples(2, few)
    with pytest.raises(ValueError, match="prior must be a positive number, not 0"):
        fit_samples(2, enough, prior=0)
    with pytest.raises(ValueError, match="target must be a multiple of five"):
        fit_samples(2, enough, target=301)
    with pytest.raises(ValueError, match="row 0: the round is not over"):
        samples_of(np.array([Match(seed=1).state], STATE))
    with pytest.raises(ValueError, match="rounds must be within 16000"):
        fit_winning_chances(2, 15_999, 1)
    with pytest.raises(ValueError, match="policy must be one of 'greedy', 'random'"):
        fit_winning_chances(2, 16_000, 1, policy="best")
    with pytest.raises(ValueError, match=r"num_players must be within 2 .. 4, not 5"):
        fit_winning_chances(5, 16_000, 1)


def test_the_command_writes_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for path in (first, second):
        assert main(["--players", "2", "--rounds", "16000", "--seed", "3", "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    assert f"{first}: 2 seats, 16,000 rounds of greedy, seed 3; standard error 0.00" in out
    assert "16 of 16 batches" in err
    assert first.read_bytes() == second.read_bytes()
    fitted, stored = load_winning_chances(2, path=first), load_winning_chances(2)
    assert fitted.table.tobytes() == fit_winning_chances(2, 16_000, 3).table.tobytes()
    assert (fitted.rounds, fitted.seed) == (16_000, 3)
    off = np.abs(fitted.table.astype(np.float64) - stored.table)  # other rounds, the same chances
    assert off.max() < 5 * (fitted.error_max + stored.error_max)
    assert np.sqrt(np.mean(off**2)) < 3 * fitted.error_rms


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--players", "5"], "--players: must be within 2 .. 4, not 5"),
        (["--rounds", "15999"], "--rounds: must be within 16000"),
        (["--rounds", "many"], "'many' is not a whole number"),
        (["--seed", "-1"], "--seed: must be within 0"),
        (["--policy", "best"], "--policy: invalid choice"),
        (["--out", "{tmp}/there.npz"], "there.npz exists already: --force replaces it"),
        (["--out", "{tmp}/no/where.npz"], "where.npz cannot be written"),
        (["--out", "{tmp}"], "exists already"),
        (["--force", "--out", "{tmp}"], "cannot be written"),
    ],
)
def test_commands_refused(arguments: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there.npz").write_bytes(b"kept")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    with pytest.raises(SystemExit) as exit_status:
        main(given if "--out" in given else [*given, "--out", str(tmp_path / "new.npz")])
    assert exit_status.value.code == 2
    assert fault in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["there.npz"]
    assert (tmp_path / "there.npz").read_bytes() == b"kept"
