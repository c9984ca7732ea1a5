"""The programs of examples/: what they compute, and that they run as their texts say."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")
pytest.importorskip("scipy")

from agents import make_agent  # noqa: E402
from agents.agent import load_network  # noqa: E402
from agents.arena.evaluation import main as evaluate  # noqa: E402
from agents.training.seat_ppo import seat_advantages  # noqa: E402
from examples import (  # noqa: E402
    matches_to_arrays,
    network_agent,
    own_agent,
    search_with_clones,
    training_loop,
    watch_checkpoint,
)
from fivesup_env import Match, View  # noqa: E402
from fivesup_env.actions import NUM_ENDS_ACTIONS, action_mask  # noqa: E402
from fivesup_env.belief import sample_worlds  # noqa: E402
from fivesup_env.cli import main as fivesup  # noqa: E402
from fivesup_env.observation import OBS_SIZE, encode, scaled, section  # noqa: E402
from fivesup_env.records import read_records, replay  # noqa: E402
from fivesup_env.rules.state import STATE  # noqa: E402
from fivesup_env.search import gains, try_actions  # noqa: E402
from tests.conftest import TILES  # noqa: E402
from tests.processes import ROOT  # noqa: E402

EXAMPLES = ROOT / "examples"
MODULES = ["__init__.py", "network_agent.py"]
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in MODULES)
AS_MODULES = ["tianshou_dqn", "torchrl_ppo"]  # they import what they share


def refused(main: Any, *argv: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a program writes to stderr when it does not take its arguments."""
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def environment() -> dict[str, str]:
    """The environment of a program that imports the package from here."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


# All of them


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_tells_how_it_is_run_and_is_listed(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text is not None
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    if path.stem in AS_MODULES:
        assert f"python -m examples.{path.stem}" in text
        assert f"bin/python -m examples.{path.stem}\n" in listed
    else:
        assert f"python examples/{path.name}" in text or f"python evaluate.py examples.{path.stem}:" in text
    assert "Prints" in text
    assert f"| [{path.name}]({path.name}) |" in listed


def test_what_examples_share_is_told_of_as_no_program() -> None:
    assert "\n[network_agent.py](network_agent.py) is no program" in (EXAMPLES / "README.md").read_text(
        encoding="utf-8"
    )


# own_agent


@pytest.mark.parametrize(
    ("ends", "move", "values"),
    [
        ([], "2|5", {2, 5}),
        ([], "3|3", {3}),
        (["half 1", "half 6"], "1|4@1|6.low", {4, 6}),
        (["half 1", "half 6"], "0|6@1|6.high", {0, 1}),
        (["half 1", "half 6"], "6|6@1|6.high", {1, 6}),
        (["half 5", "line 4"], "2|4@4|4.line_b", {2, 5}),
        (["half 5", "half 5", "branch 4"], "4|5@0|5.high", {4, 5}),
    ],
)
def test_own_agent_knows_the_ends_after_a_placement(ends: list[str], move: str, values: set[int]) -> None:
    assert own_agent.values_after(ends, move) == values


@pytest.mark.parametrize(("score", "best"), [(0, "4|6"), (295, "4|6"), (300, "1|4")])
def test_own_agent_takes_most_points_but_none_that_the_exact_target_refuses(score: int, best: str) -> None:
    setup = {"num_players": 2, "hands": [["1|4", "4|6"], ["0|0"]], "boneyard": ["0|1"], "scores": [score, 0]}
    match = Match.from_setup(setup)  # 4|6 counts 10, 1|4 counts 5, and needs are 305, 10 and 5
    views, masks = np.array([match.view(0).state], STATE), action_mask(match.state)[None]
    (action,) = own_agent.make().act(views, masks, np.zeros(1, np.uint64))
    assert TILES[action] == best


def test_own_agent_counts_neither_its_hand_nor_the_table_as_unseen() -> None:
    match = Match.from_setup({"num_players": 2, "hands": [["1|4", "4|6"], ["0|4", "0|0"]], "boneyard": ["0|1"]})
    match.play("1|4")
    match.play("0|4@1|4.high")
    assert own_agent.unseen(match.view(0)) == [tile for tile in TILES if tile not in ("1|4", "4|6", "0|4")]


def test_own_agent_beats_random_in_the_arena(tmp_path: Path) -> None:
    argv = ["examples.own_agent:make", "random", "--matches", "30", "--seed", "1000", "--out", str(tmp_path / "arena")]
    assert evaluate(argv) == 0
    (pair,) = json.loads((tmp_path / "arena" / "results.json").read_text(encoding="utf-8"))["pairs"]
    assert (pair["matches"], pair["forfeits_a"]) == (30, 0)
    assert pair["low"] > 0.6


# training_loop


@pytest.fixture
def own_generator() -> Any:
    """Leave torch's own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        yield


def test_training_loop_is_short() -> None:
    assert len((EXAMPLES / "training_loop.py").read_text(encoding="utf-8").splitlines()) < 200


def test_advantages_of_a_rollout_worked_out_by_hand() -> None:
    """One match, seats 0 1 1 0 1 0, which ends with step 3; gamma 1/2, lambda 1/2; seat 0 moves next."""
    rewards = np.array([[1, 2], [4, 8], [16, 32], [64, 128], [1, 2], [4, 8]], np.float32)[:, None]
    dones = np.array([0, 0, 0, 1, 0, 0], np.bool_)[:, None]
    seats = np.array([0, 1, 1, 0, 1, 0])[:, None]
    values = np.array([1, 2, 3, 4, 5, 6], np.float32)[:, None]
    args = training_loop.Args(gamma=0.5, gae_lambda=0.5)
    advantages, known = training_loop.seat_advantages(
        rewards, dones, seats, values, np.array([0]), np.array([10], np.float32), args
    )
    # Step 5: 4 + 10 / 2 - 6. Step 4: seat 1 has no later decision here. Step 3: 64 - 4. Step 2: 32 + 128 - 3.
    # Step 1: 8 + 3 / 2 - 2, and a quarter of step 2. Step 0: 1 + 4 + 16 + 4 / 2 - 1, and a quarter of step 3.
    assert advantages[:, 0].tolist() == [22 + 15, 7.5 + 39.25, 157, 60, 0, 3]
    assert known[:, 0].tolist() == [True, True, True, True, False, True]


@pytest.mark.parametrize("num_seats", [2, 3, 4])
def test_advantages_are_those_of_the_package(num_seats: int) -> None:
    rng = np.random.default_rng(num_seats)
    shape = 30, 5
    rewards = rng.normal(size=(*shape, num_seats)).astype(np.float32)
    dones, seats = rng.random(shape) < 0.1, rng.integers(num_seats, size=shape)
    values, next_values = rng.normal(size=shape).astype(np.float32), rng.normal(size=5).astype(np.float32)
    next_seats = rng.integers(num_seats, size=5)
    found, known = training_loop.seat_advantages(
        rewards, dones, seats, values, next_seats, next_values, training_loop.Args(gamma=0.9, gae_lambda=0.8)
    )
    chain, wanted, wanted_known = np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
    seat_advantages(seats, rewards, dones, values, next_seats, next_values, 0.9, 0.8, chain, wanted, wanted_known)
    assert not known.all()
    np.testing.assert_array_equal(known, wanted_known)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.usefixtures("own_generator")
def test_training_loop_learns_to_beat_random(capsys: pytest.CaptureFixture[str]) -> None:
    training_loop.main(["--total-timesteps", "32768", "--num-envs", "128", "--matches", "60", "--width", "64"])
    out = capsys.readouterr().out
    share = re.search(r"^against random: wins (\S+) \[(\S+), (\S+)\]$", out, re.MULTILINE)
    assert share is not None
    assert float(share[2]) > 0.5  # the interval is above the even share after a twelfth of the training
    assert out.count("update ") == 1  # of four updates only the last is told of
    assert "against greedy" in out


@pytest.mark.usefixtures("own_generator")
@pytest.mark.parametrize("players", [2, 4])
def test_training_is_a_function_of_its_arguments(players: int) -> None:
    def weights(seed: int) -> Any:
        args = training_loop.Args(
            seed=seed, players=players, total_timesteps=256, num_envs=8, num_steps=16, minibatch_size=64, width=8
        )
        return torch.nn.utils.parameters_to_vector(training_loop.train(args).parameters())

    first = weights(3)
    assert torch.equal(first, weights(3))
    assert not torch.equal(first, weights(4))


def test_training_loop_names_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    main = training_loop.main
    assert "--players: must be within 2 .. 4, not 5" in refused(main, "--players", "5", capsys=capsys)
    assert "--num-envs: must be at least 1, not 0" in refused(main, "--num-envs", "0", capsys=capsys)
    assert "--seed: must be within 0 .. 9223372036854775807, not -1" in refused(main, "--seed", "-1", capsys=capsys)


# search_with_clones


def small_match() -> Match:
    """Three tiles in all, so that seat 0 knows that seat 1 has [2|2].

    [1|4] counts 5, and blocks the round with 0 pips against 4, another 5; [0|0] counts nothing, and blocks it with 5
    pips against 4, which is nothing.
    """
    used = ["1|4", "0|0", "2|2"]
    without = [tile for tile in TILES if tile not in used]
    return Match.from_setup({"num_players": 2, "hands": [used[:2], used[2:]], "hand_size": 1, "without": without})


@pytest.mark.parametrize("policy", ["greedy", "random"])
def test_search_finds_the_worth_of_actions_that_end_the_round(policy: str) -> None:
    found = search_with_clones.search(small_match().view(0), 3, search_with_clones.POLICIES[policy], seed=1)
    assert [(worth.move, worth.mean, worth.error) for worth in found] == [("1|4", 10, 0), ("0|0", 0, 0)]


def test_search_prints_the_position_and_the_actions_as_a_program() -> None:
    program = [sys.executable, str(EXAMPLES / "search_with_clones.py")]
    text = subprocess.run(
        [*program, "--position", repr(small_match()), "--worlds", "2"],
        check=True,
        capture_output=True,
        text=True,
        env=environment(),
    ).stdout
    assert "1 worlds agree with this; 2 were tried" in text
    assert "player_1: [?]" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [["+10.00", "0.00", "1|4"], ["+0.00", "0.00", "0|0"]]


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_search_values_actions_as_the_compiled_search_does(num_players: int) -> None:
    view = search_with_clones.dealt_view(num_players, seed=5, plies=3)
    found = search_with_clones.search(view, 6, search_with_clones.greedy_move, seed=9)
    keys = np.random.default_rng(9).integers(2**64, size=6, dtype=np.uint64)
    actions = np.flatnonzero(action_mask(view.state))
    worlds = sample_worlds(view.state, keys)
    gained = gains(try_actions(worlds, actions, keys, policy="greedy")) - gains(worlds)  # those are of the whole round
    sides = 2 if num_players == 4 else num_players
    own = gained[..., view.seat % sides]
    margins = own - (gained.sum(axis=-1) - own) / (sides - 1)  # sides that do not exist gain nothing
    wanted = dict(zip(search_with_clones.moves(view), margins, strict=True))
    assert len(found) > 1
    assert all(before.mean >= after.mean for before, after in itertools.pairwise(found))
    for worth in found:
        np.testing.assert_allclose(worth.margins, wanted.pop(worth.move))
    assert not wanted


def test_search_names_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    main, match = search_with_clones.main, small_match()
    assert "--players: must be within 2 .. 4, not 5" in refused(main, "--players", "5", capsys=capsys)
    assert "--worlds: must be at least 1, not 0" in refused(main, "--worlds", "0", capsys=capsys)
    assert "--seed: must be within 0 .. 18446744073709551615, not -1" in refused(main, "--seed", "-1", capsys=capsys)
    assert "--plies: must be at least 0, not -1" in refused(main, "--plies", "-1", capsys=capsys)
    assert "--plies 99: the first round is over" in refused(main, "--plies", "99", capsys=capsys)
    not_to_move = refused(main, "--position", repr(match.view(1)), capsys=capsys)
    assert "--position: the seat whose view it is has to be to move" in not_to_move
    no_position = refused(main, "--position", "no text", capsys=capsys)
    assert "error: --position: " in no_position
    assert "no text" in no_position


# matches_to_arrays


@pytest.fixture(scope="module")
def matches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of three matches: with two seats, with three, and with four, stopped after two rounds."""
    folder = tmp_path_factory.mktemp("records")
    lines = []
    for players, more in ((2, ()), (3, ()), (4, ("--max-rounds", "2"))):
        path = folder / f"{players}.jsonl"
        argv = ["record", "--players", str(players), "--agents", "random", "--seed", "8", "--out", str(path), *more]
        assert fivesup(argv) == 0
        lines.append(path.read_text(encoding="utf-8"))
    joined = folder / "matches.jsonl"
    joined.write_text("".join(lines), encoding="utf-8")
    return joined


def converted(matches: Path, out: Path) -> dict[str, Any]:
    """The arrays of a file of records, by way of a file."""
    matches_to_arrays.main([str(matches), "--out", str(out)])
    return matches_to_arrays.load(str(out))


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_arrays_have_a_row_for_each_action_and_play_the_same_matches(
    matches: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"decisions.{suffix}"
    arrays = converted(matches, out)
    records = list(read_records(matches))
    actions = [action for record in records for played in record["rounds"] for action in played["actions"]]
    count = len(actions)
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "observation": ("int8", (count, 696)),
        "action_mask": ("int8", (count, 163)),
        "action": ("int16", (count,)),
        "seat": ("int8", (count,)),
        "match": ("int32", (count,)),
        "round": ("int16", (count,)),
        "return": ("float32", (count,)),
        "num_players": ("int8", (count,)),
        "seed": ("uint64", (count,)),
    }
    assert sum(array[0].nbytes for array in arrays.values()) == 881
    assert arrays["seat"].tolist() == [int(action[0]) for action in actions]
    assert list(matches_to_arrays.replay_rows(arrays)) == [replay(record) for record in records]
    assert f"wrote {count:,} rows of 3 matches to {out}, {out.stat().st_size:,} bytes" in capsys.readouterr().out


def test_rows_hold_what_the_seat_saw_and_what_it_got(matches: Path, tmp_path: Path) -> None:
    arrays = converted(matches, tmp_path / "decisions.npz")
    assert arrays["action_mask"][np.arange(len(arrays["action"])), arrays["action"]].all()
    for number, record in enumerate(read_records(matches)):
        rows = np.flatnonzero(arrays["match"] == number)
        dealt = record["rounds"][0]
        hand = np.flatnonzero(arrays["observation"][rows[0], section("hand")])
        assert [TILES[tile] for tile in hand] == dealt["hands"][dealt["starter"]]
        assert np.unique(arrays["round"][rows]).tolist() == list(range(1, len(record["rounds"]) + 1))
        for seat in range(record["num_players"]):
            got = set(arrays["return"][rows][arrays["seat"][rows] == seat].tolist())
            lost = {2: -1.0, 3: -0.5}.get(record["num_players"])
            assert got == {0.0 if record["winner"] is None else 1.0 if record["winner"] == seat else lost}
    assert {record["winner"] is None for record in read_records(matches)} == {True, False}


def test_rows_that_are_no_match_are_named(matches: Path, tmp_path: Path) -> None:
    arrays = converted(matches, tmp_path / "decisions.npz")
    arrays["action"][1] = arrays["action"][0]  # the tile of row 0 lies on the table
    with pytest.raises(ValueError, match=r"^row 1: seat \d cannot take action"):
        list(matches_to_arrays.replay_rows(arrays))


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda lines: [lines[0], lines[1][:200]], "line 2: not JSON"),
        (lambda lines: [lines[0], lines[1], "{}\n"], "line 3: not a match record"),
        (lambda lines: [lines[0], lines[1].replace('"seed":8', '"seed":9')], "line 2, round 1: "),
        (lambda lines: [], "there are no matches"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    matches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Any, fault: str
) -> None:
    bad, out = tmp_path / "bad.jsonl", tmp_path / "decisions.npz"
    bad.write_text("".join(spoil(matches.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    error = refused(matches_to_arrays.main, str(bad), "--out", str(out), capsys=capsys)
    assert f"error: {bad}: {fault}" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl"]


def test_mini_games_missing_files_and_other_formats_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mini = tmp_path / "mini.jsonl"
    assert fivesup(["record", "--target", "30", "--out", str(mini)]) == 0
    main = matches_to_arrays.main
    assert "line 1: only matches of the real game" in refused(main, str(mini), "--out", "x.npz", capsys=capsys)
    assert "must end with .npz or .parquet" in refused(main, str(mini), "--out", "x.csv", capsys=capsys)
    missing = str(tmp_path / "missing.jsonl")
    assert f"{missing}: No such file" in refused(main, missing, "--out", "x.npz", capsys=capsys)


def test_parquet_without_pyarrow_tells_what_to_install(
    matches: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = tmp_path / "decisions.parquet"
    told = refused(matches_to_arrays.main, str(matches), "--out", str(out), capsys=capsys)
    assert "pyarrow" in told
    assert told.endswith(': pip install "fivesup[data]"\n')
    assert not list(tmp_path.iterdir())


# watch_checkpoint

MOVE = re.compile(r"^player_(\d): ([^\s\[]+)$", re.MULTILINE)  # hands have brackets
THOUGHT = re.compile(r"^  (\d\.\d{3})  (\S+)(  <-)?$", re.MULTILINE)


def test_watching_tells_every_move_and_what_the_network_thinks(capsys: pytest.CaptureFixture[str]) -> None:
    assert watch_checkpoint.main(["net-2p", "--seed", "5", "--delay", "0", "--top", "2"]) == 0
    out = capsys.readouterr().out
    match = Match(2, seed=5)
    view = match.view(match.turn)
    chances = load_network("net-2p").probabilities(np.array([view.state], STATE), action_mask(view.state)[None])[0]
    for seat, move in MOVE.findall(out):
        assert int(seat) == match.turn
        match.play(move)
        assert str(match) in out
    assert match.round_over
    assert out.endswith(f"scores: {match.scores[0]} {match.scores[1]}\n")
    (first, opening, taken), (second, _, other) = THOUGHT.findall(out)[:2]
    assert [first, second] == [f"{chance:.3f}" for chance in np.sort(chances)[:-3:-1]]
    assert (opening, taken, other) == (match.history[0].split()[1], "  <-", "")


def test_ctrl_c_ends_the_show_and_keeps_the_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygame")
    image = pytest.importorskip("PIL.Image")
    waits = []

    def interrupted(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("examples.watch_checkpoint.time.sleep", interrupted)
    gif = tmp_path / "round.gif"
    argv = ["net-4p", "--against", "greedy", "--seed", "2", "--delay", "0.25", "--gif", str(gif)]
    assert watch_checkpoint.main(argv) == 130
    out, err = capsys.readouterr()
    assert err == "\nstopped\n"
    assert out.endswith(f"wrote 3 pictures to {gif}\n")
    assert waits == [0.25] * 3
    with image.open(gif) as pictures:
        assert (pictures.n_frames, pictures.info["duration"]) == (3, 250)


@pytest.mark.parametrize(("missing", "package"), [("pygame", '"fivesup[render]"'), ("PIL", "pillow")])
def test_a_gif_without_its_libraries_tells_what_to_install_before_the_show(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    package: str,
) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delattr(watch_checkpoint, "show")
    argv = "net-2p", "--delay", "0", "--gif", str(tmp_path / "x.gif")
    assert refused(watch_checkpoint.main, *argv, capsys=capsys).endswith(f": pip install {package}\n")


def test_a_gif_that_cannot_be_written_is_named_before_the_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygame")
    pytest.importorskip("PIL")
    monkeypatch.delattr(watch_checkpoint, "show")
    other, lost, folder = tmp_path / "x.xyz", tmp_path / "nowhere" / "x.gif", tmp_path / "folder.gif"
    folder.mkdir()
    for path, fault in (
        (other, f"--gif must end with .gif, not be {other}"),
        (lost, f"--gif {lost}: No such file or directory"),
        (folder, f"--gif {folder}: Is a directory"),
    ):
        assert fault in refused(watch_checkpoint.main, "net-2p", "--gif", str(path), capsys=capsys)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_reader_that_has_enough_ends_the_show_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, str(EXAMPLES / "watch_checkpoint.py"), "net-2p", "--delay", "0"]
    try:
        ended = subprocess.run(program, stdout=write, stderr=subprocess.PIPE, env=environment(), check=False)
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_only_networks_are_asked_what_they_think() -> None:
    match = Match(2, seed=1)
    _, thoughts = watch_checkpoint.decide(make_agent("greedy"), match, np.uint64(0), 3)
    assert thoughts == []


def test_watching_names_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    main = watch_checkpoint.main
    assert "'greedy' is no network" in refused(main, "greedy", capsys=capsys)
    assert "no agent 'nowhere'" in refused(main, "nowhere", capsys=capsys)
    assert "trained for 2 seats" in refused(main, "net-2p", "--players", "3", capsys=capsys)
    assert "trained for 3 seats" in refused(main, "net-2p", "--against", "net-3p", capsys=capsys)
    assert "--delay: must be within 0 .. 60, not -1" in refused(main, "net-2p", "--delay", "-1", capsys=capsys)
    assert "--delay: must be within 0 .. 60, not nan" in refused(main, "net-2p", "--delay", "nan", capsys=capsys)
    assert "--rounds: must be at least 1, not 0" in refused(main, "net-2p", "--rounds", "0", capsys=capsys)
    assert "--top: must be at least 1, not 0" in refused(main, "net-2p", "--top", "0", capsys=capsys)
    assert "--seed: must be within 0 .. " in refused(main, "net-2p", "--seed", "-1", capsys=capsys)
    assert "--players: must be within 2 .. 4, not 5" in refused(main, "net-2p", "--players", "5", capsys=capsys)


def test_a_view_can_be_searched_by_its_text() -> None:
    view = small_match().view(0)
    assert search_with_clones.read_view(repr(view)) == View.from_text(repr(view)) == view


# network_agent


def lowest_id(steps: int, num_players: int, seed: int) -> Any:
    """A training that gives every id a score: the lower the better, and alike for all observations."""
    network = torch.nn.Linear(OBS_SIZE, NUM_ENDS_ACTIONS)
    torch.nn.init.zeros_(network.weight)
    network.bias.data = -torch.arange(NUM_ENDS_ACTIONS, dtype=torch.float32)
    return network


def trained(*argv: str, out: Path, train: Any = lowest_id) -> Any:
    return network_agent.train_and_measure(
        train, network_agent.ScoringAgent, description="", steps=7, weights=out, argv=argv
    )


def test_a_scoring_agent_takes_the_legal_action_of_the_highest_score() -> None:
    matches = [Match(3, seed=seed) for seed in range(4)]
    views = np.array([match.view(match.turn).state for match in matches], STATE)
    masks = np.array([action_mask(match.state) for match in matches])
    seen = []

    def score(observations: Any) -> Any:
        seen.append(observations)
        return torch.arange(NUM_ENDS_ACTIONS, dtype=torch.float32).expand(len(observations), -1)

    actions = network_agent.ScoringAgent(score).act(views, masks, np.zeros(4, np.uint64))
    assert actions.tolist() == [np.flatnonzero(mask).max() for mask in masks]
    np.testing.assert_array_equal(seen[0].numpy(), [scaled(encode(view)) for view in views])
    assert seen[0].dtype == torch.float32


@pytest.mark.parametrize(("players", "matches", "played"), [(2, 1, 2), (3, 4, 6), (4, 6, 6)])
def test_training_tells_of_the_matches_that_were_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], players: int, matches: int, played: int
) -> None:
    out = tmp_path / "new" / "weights.pt"
    asked = []

    def train(*numbers: int) -> Any:
        asked.append(numbers)
        return lowest_id(*numbers)

    won = trained("--players", str(players), "--matches", str(matches), "--seed", "3", out=out, train=train)
    assert asked == [(7, players, 3)]
    said = f"won {won.mean:.3f} [{won.low:.3f}, {won.high:.3f}] of {played} matches against random\n"
    assert capsys.readouterr().out == said
    share, count = network_agent.share_won(network_agent.ScoringAgent(lowest_id(0, 0, 0)), "random", players, matches)
    assert (share, count) == (won, played)
    assert [path.name for path in out.parent.iterdir()] == ["weights.pt"]


def test_weights_are_those_of_the_file_or_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default, named = tmp_path / "default.pt", tmp_path / "named.pt"
    for value, path in ((1.0, default), (2.0, named)):
        torch.save({"weight": torch.tensor([[value]])}, path)
    monkeypatch.delenv("FIVESUP_WEIGHTS", raising=False)
    network = torch.nn.Linear(1, 1, bias=False)
    assert network_agent.load(network, default) is network
    assert network.weight.item() == 1
    monkeypatch.setenv("FIVESUP_WEIGHTS", str(named))
    assert network_agent.load(network, default).weight.item() == 2


@pytest.mark.parametrize(
    ("flag", "value", "fault"),
    [
        ("--steps", "0", "must be at least 1, not 0"),
        ("--matches", "0", "must be at least 1, not 0"),
        ("--seed", "-1", "must be within 0 .. 4294967295, not -1"),
        ("--players", "5", "must be within 2 .. 4, not 5"),
    ],
)
def test_training_names_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, value: str, fault: str
) -> None:
    def main(argv: Any) -> None:
        trained(*argv, out=tmp_path / "weights.pt", train=None)

    assert f"error: argument {flag}: {fault}\n" in refused(main, flag, value, capsys=capsys)


def test_a_file_that_cannot_be_written_is_named_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(argv: Any) -> None:
        trained(*argv, out=tmp_path / "weights.pt", train=None)

    (tmp_path / "file").touch()
    assert f"--out {tmp_path}: Is a directory" in refused(main, "--out", str(tmp_path), capsys=capsys)
    below = tmp_path / "file" / "weights.pt"
    assert f"--out {below}: File exists" in refused(main, "--out", str(below), capsys=capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
