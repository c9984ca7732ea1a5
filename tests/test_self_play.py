"""Rounds of an agent against itself: where they begin, that they follow from the seed, and tables fitted to them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.agent import Agent, make_agent
from agents.baselines import RandomAgent
from agents.search import self_play
from agents.search.fit_winning_chances import fit_agent, fit_winning_chances, main
from agents.search.self_play import play_matches, play_rounds
from agents.search.winning_chances import chance_table, load_winning_chances
from fivesup_env.rules.state import OUT, WON, States, num_sides
from tests.playing import SEATS

ZONES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 62]  # needs in strokes at which zones begin, and beyond the last


def rounds_of(agent: str, seats: int, rounds: int, seed: int = 3) -> States:
    return np.concatenate(list(play_rounds(make_agent(agent), seats, rounds, seed)))


def check_follows(before: Any, after: Any) -> None:
    """The round goes on from the scores of the one before, started by who went out (R4)."""
    assert after.round_scores.tolist() == before.scores.tolist()
    if before.result == OUT:
        assert after.starter == before.result_of


@pytest.mark.parametrize("seats", SEATS)
def test_one_match_in_four_begins_at_0_and_each_is_played_on(seats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_play, "_ROWS", 1)  # so that all rounds are one row, in order
    states = rounds_of("greedy", seats, 300)
    assert len(states) == 300
    starts = [0]
    for index in range(1, 300):
        if states[index - 1].result == WON:
            starts.append(index)
        else:
            check_follows(states[index - 1], states[index])
    assert len(starts) > 12
    scores = states["round_scores"][starts, : num_sides(seats)]
    assert [bool(score.any()) for score in scores] == [number % 4 != 0 for number in range(len(starts))]
    assert len(set(states["starter"][starts].tolist())) == seats


def test_drawn_scores_have_every_zone_and_every_need_within_it_equally_often() -> None:
    states = rounds_of("random", 2, 2048)  # each the first of its row
    scores = states["round_scores"][:, :2].astype(np.int64)
    from_zero = (scores == 0).all(axis=1)
    assert 512 <= np.count_nonzero(from_zero) < 512 + 8  # the drawn 0 : 0 are one in (13 * 32)**2
    needs = (305 - scores[~from_zero]) // 5
    for column in needs.T:
        counts = np.histogram(column, ZONES)[0]
        assert (np.abs(counts - 1536 / 13) < 5 * np.sqrt(1536 / 13)).all()
    far = np.bincount(needs[needs >= 30], minlength=62)[30:]
    assert (np.abs(far - far.mean()) < 5 * np.sqrt(far.mean())).all()


@pytest.mark.parametrize("seats", SEATS)
def test_whole_matches_begin_at_0_and_end_with_a_winner(seats: int) -> None:
    matches: dict[int, list[Any]] = {number: [] for number in range(60)}
    for numbers, states in play_matches(make_agent("random"), seats, 60, 3):
        for number, state in zip(numbers.tolist(), states, strict=True):
            matches[number].append(state)
    for rounds in matches.values():
        assert not rounds[0].round_scores.any()
        for before, after in pairwise(rounds):
            assert before.result != WON
            check_follows(before, after)
        assert rounds[-1].result == WON
    assert len({rounds[0].starter for rounds in matches.values()}) == seats


def test_rounds_follow_from_the_seed_and_no_fit_has_those_of_matches() -> None:
    first, again, other = (rounds_of("random", 2, 3000, seed) for seed in (3, 3, 4))
    assert first.tobytes() == again.tobytes()
    matches = np.concatenate([states for _, states in play_matches(make_agent("random"), 2, 100, 3)])
    deals = [set(states["seed"].tolist()) for states in (first, other, matches)]
    assert [len(each) for each in deals] == [3000, 3000, len(matches)]
    assert not deals[0] & deals[1] and not deals[0] & deals[2]


class Watched(RandomAgent):
    """Looks at what it is shown."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        assert (views["observer"] == views["turn"]).all()
        assert ((views["hands"] != 0).sum(axis=1) == 1).all()
        assert not views["seed"].any()
        self.keys += keys.tolist()
        return super().act(views, masks, keys)


def test_an_agent_is_shown_views_and_gets_every_key_once() -> None:
    agent = Watched()
    list(play_rounds(agent, 3, 500, 1))
    assert len(agent.keys) == len(set(agent.keys)) > 500


class Wrong(RandomAgent):
    """Takes what is not legal."""

    def act(self, views: States, masks: NDArray[np.int8], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        actions: NDArray[np.int64] = masks.argmin(axis=1)
        return actions


@pytest.mark.parametrize(
    ("agent", "rounds", "seed", "fault"),
    [
        (Wrong(), 10, 1, "row 0: "),
        (RandomAgent(), 0, 1, "rounds must be within 1 "),
        (RandomAgent(), 10, -1, "seed must be within 0 "),
        (RandomAgent(), 10, 2**64, "seed must be within 0 "),
    ],
)
def test_what_cannot_be_played(agent: Agent, rounds: int, seed: int, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        list(play_rounds(agent, 2, rounds, seed))
    with pytest.raises(ValueError, match="matches must be within 1 "):
        next(play_matches(agent, 2, 0, 1))


# Tables


@pytest.mark.parametrize("policy", ["greedy", "random"])
def test_the_play_of_an_agent_gives_the_chances_of_its_policy(policy: str) -> None:
    """As near as 120,000 rounds allow.

    An error in a chance is the sum of those in what the rounds of each pair of zones lead to, as often as a match comes
    by: near the end about once. Their variances are those of p (1 - p) <= 1 / 4, over the rounds seen. Over needs up to
    100 the harmonic mean of these is 400, greedy's 50 included, so the error is below sqrt(1 / 4 / 400) = 0.025.
    """
    seen: list[int] = []
    fitted = fit_agent(2, make_agent(policy), 120_000, 1, source=policy, progress=seen.append)
    greedy = chance_table(2)
    truth = greedy if policy == "greedy" else fit_winning_chances(2, 16_000, 3, policy=policy).table
    near = np.s_[1:, :20, :20]
    off, from_greedy = (np.sqrt(np.mean((table[near] - truth[near]) ** 2)) for table in (fitted.table, greedy))
    assert off < 0.025
    if policy == "random":
        assert from_greedy > 0.025
        assert off < from_greedy / 2
    assert seen == sorted(seen) and seen[-1] == 120_000
    assert (fitted.source, fitted.rounds, fitted.seed) == (policy, 120_000, 1)


@pytest.mark.parametrize("seats", [2, 4])  # with three, a fit takes a quarter of a minute
def test_the_command_fits_an_agents_play_to_the_same_bytes_again(
    seats: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for path in (first, second):
        arguments = ["--players", str(seats), "--agent", "greedy", "--rounds", "2000", "--seed", "3"]
        assert main([*arguments, "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    assert f"{first}: {seats} seats, 2,000 rounds of greedy, seed 3; " in out
    assert "2000 of 2000 rounds" in err
    assert first.read_bytes() == second.read_bytes()
    fitted = load_winning_chances(seats, path=first)
    assert fitted.table.tobytes() == fit_agent(seats, make_agent("greedy"), 2000, 3).table.tobytes()
    assert (fitted.source, fitted.rounds, fitted.seed) == ("greedy", 2000, 3)
    assert np.isnan(fitted.error_max)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--agent", ""], "argument --agent: no agent ''"),
        (["--agent", "nobody"], "argument --agent: no agent 'nobody'"),
        (["--agent", "clairvoyant:1"], "argument --agent: agent 'clairvoyant:1' sees hidden tiles"),
        (["--agent", "greedy+random"], "argument --agent: no agent 'greedy+random'"),
        (["--agent", "tests.test_self_play:Wrong"], "argument --agent: row 0: "),
        (["--agent", "greedy", "--policy", "random"], "argument --policy: not allowed with argument --agent"),
        (["--agent", "greedy", "--rounds", "999"], "argument --rounds: must be within 1000 .. 4294967295, not 999"),
    ],
)
def test_commands_refused(arguments: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_status:
        main([*arguments, "--out", str(tmp_path / "new.npz")])
    assert exit_status.value.code == 2
    assert fault in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_network_for_other_seats_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sb3_contrib")
    with pytest.raises(SystemExit):
        main(["--players", "2", "--agent", "net-3p", "--out", str(tmp_path / "new.npz")])
    assert "argument --agent: agent 'net-3p' was trained for 3 seats, and the match has 2" in capsys.readouterr().err
