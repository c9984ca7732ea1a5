"""A network trained against a frozen agent, and what it then wins of other matches."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sb3_contrib")

from agents.arena import crew  # noqa: E402
from agents.arena.blocks import block_scores, play_blocks  # noqa: E402
from agents.arena.evaluation import main  # noqa: E402
from agents.network import NetworkAgent, make_policy, save_checkpoint  # noqa: E402
from agents.training import best_response, run  # noqa: E402
from agents.training.best_response import Attempt, lines_of, measurement, training_config  # noqa: E402
from agents.training.config import Config, read_config  # noqa: E402
from agents.training.pool import Pool  # noqa: E402
from agents.training.run import resume  # noqa: E402
from agents.training.tables import LEARNER, SelfPlayVecEnv  # noqa: E402

ROLLOUT = 64 * 32  # decisions between two updates here


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Rollouts so small, and steps so large, that a tiny network learns something at once."""

    def config(attempt: Attempt, folder: Path) -> Config:
        made = training_config(attempt, folder)
        small: dict[str, Any] = {
            "num_envs": 64,
            "rollout_steps": 32,
            "minibatch_size": 256,
            "learning_rate": 5e-3,
            "epochs": 4,
        }
        return dataclasses.replace(made, ppo=dataclasses.replace(made.ppo, **small))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_response, "training_config", config)
        yield


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a network that has learned nothing, for any number of seats."""
    folder = tmp_path_factory.mktemp("agents") / "tiny"
    torch.manual_seed(1)
    save_checkpoint(folder, make_policy((32,)), (32,), reward_scale=10.0)
    return folder


@dataclass
class Seen:
    """What went on in an attempt.

    Attributes:
        folder: of the attempt.
        arguments: of the command line, but for `--out`.
        owners: int64[tables, seats] at each step of the training.
        trained: match seeds of the training.
        asked: views, masks and actions of the opponent in the training.
        selected: the first match seed, the number of blocks, and the share won, of each evaluation in the training.
    """

    folder: Path
    arguments: list[str]
    owners: list[Any] = field(default_factory=list)
    trained: set[int] = field(default_factory=set)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    selected: list[tuple[int, int, float]] = field(default_factory=list)

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "best_response.json").read_text(encoding="utf-8"))
        return found

    def measured(self) -> list[int]:
        """The match seed of each match of the measurement."""
        lines = (self.folder / "arena" / "matches.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["seed"] for line in lines]


def watch(seen: Seen, patch: pytest.MonkeyPatch) -> None:
    """Note what an attempt does."""
    step, agent = SelfPlayVecEnv.step_wait, Pool.agent

    def watched_step(tables: SelfPlayVecEnv) -> Any:
        seen.owners.append(tables.owners.copy())
        seen.trained.update(tables.game.states["seed"].tolist())
        return step(tables)

    def watched_agent(pool: Pool, number: int) -> Any:
        inner = agent(pool, number)

        class Asked:
            def act(self, views: Any, masks: Any, keys: Any) -> Any:
                actions = inner.act(views, masks, keys)
                seen.asked.append((views.copy(), masks.copy(), actions.copy()))
                return actions

        return Asked()

    def watched_blocks(a: Any, b: Any, num_players: int, *, first: int, count: int, seed: int) -> Any:
        blocks = play_blocks(a, b, num_players, first=first, count=count, seed=seed)
        seen.selected.append((seed + first, count, float(block_scores(blocks, num_players).mean())))
        return blocks

    patch.setattr(SelfPlayVecEnv, "step_wait", watched_step)
    patch.setattr(Pool, "agent", watched_agent)
    patch.setattr(run, "play_blocks", watched_blocks)


@pytest.fixture(scope="module")
def found(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """An attempt of two updates against a tiny network, that nothing interrupted."""
    arguments = [str(tiny), "--best-response", "--steps", str(2 * ROLLOUT), "--seed", "3", "--matches", "100"]
    seen = Seen(tmp_path_factory.mktemp("found") / "out", [*arguments, "--selection-matches", "40"])
    with pytest.MonkeyPatch.context() as patch:
        watch(seen, patch)
        assert main([*seen.arguments, "--out", str(seen.folder)]) == 0
    return seen


def weights(checkpoint: Path) -> dict[str, Any]:
    return dict(torch.load(checkpoint / "policy.pt", weights_only=True))


def same_weights(first: Path, second: Path) -> bool:
    one, other = weights(first), weights(second)
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


# Training


def test_every_match_of_the_training_is_one_side_of_the_learner_against_the_agent(found: Seen) -> None:
    owners = np.concatenate(found.owners)
    assert len(owners) == 2 * ROLLOUT
    assert np.unique(np.sort(owners, axis=1), axis=0).tolist() == [[LEARNER, 0]]
    firsts = (found.owners[0][:, 0] == LEARNER).sum()
    assert firsts == 32  # each side equally often
    assert not (found.folder / "run" / "pool").exists()  # no copies of the learner


def test_the_learner_changes_and_the_agent_does_not(found: Seen, tiny: Path) -> None:
    """In the training, too, the agent takes its most probable actions: those that the arena plays."""
    assert not same_weights(found.folder / "run" / "checkpoints" / "last", tiny)
    frozen = NetworkAgent.load(tiny)
    views, masks, actions = (np.concatenate(parts) for parts in zip(*found.asked, strict=True))
    assert len(actions) > ROLLOUT
    rows = np.linspace(0, len(actions) - 1, 1000).astype(int)
    keys = np.zeros(len(rows), np.uint64)
    assert (frozen.act(views[rows], masks[rows], keys) == actions[rows]).all()


@pytest.mark.parametrize(("players", "learners"), [(3, [[0], [1], [2]]), (4, [[0, 2], [1, 3]])])
def test_more_seats(players: int, learners: list[list[int]], tiny: Path, tmp_path: Path) -> None:
    """With three, one learner against two copies; with four, two copies of each are partners."""
    given = ["greedy", "--start", str(tiny), "--steps", "64", "--matches", "12", "--selection-matches", "6"]
    seen = Seen(tmp_path / "out", [*given, "--best-response", "--players", str(players)])
    with pytest.MonkeyPatch.context() as patch:
        watch(seen, patch)
        assert main([*seen.arguments, "--out", str(seen.folder)]) == 0
    rows = {tuple(np.flatnonzero(row == LEARNER).tolist()) for row in np.concatenate(seen.owners)}
    assert sorted(map(list, rows)) == learners
    assert (np.concatenate(seen.owners) <= 0).all()
    result = seen.result()
    assert (result["players"], result["matches"]) == (players, 12)
    assert result["even"] == 1 / len(learners)
    assert result["exploitability"]["mean"] == pytest.approx(result["win_rate"]["mean"] - 1 / len(learners))
    assert len(seen.measured()) == 12
    assert len(set(seen.measured())) == 12 // len(learners)


# Deals


def test_no_deal_is_used_for_two_purposes(found: Seen) -> None:
    selection = {seed for first, count, _ in found.selected for seed in range(first, first + count)}
    measurement = set(found.measured())
    assert selection == set(range(2**63, 2**63 + 20))
    assert measurement == set(range(2**62 + 3 * 10**9, 2**62 + 3 * 10**9 + 50))
    assert len(found.trained) >= 64
    assert not found.trained & (selection | measurement)


def test_every_seed_has_deals_of_its_own() -> None:
    plans = [measurement(Attempt("greedy", seed=seed, matches=10**9), Path("x")) for seed in (0, 1, 1_000_000)]
    starts = [plan.seed for plan in plans]
    assert starts[0] == 2**62  # the training of the largest seed begins below 1.1 * 10**18
    assert starts[1] - starts[0] >= plans[0].blocks
    assert starts[2] + plans[2].blocks < 2**63
    seeds = [training_config(Attempt("greedy", seed=seed), Path("x")).seed for seed in (0, 7)]
    assert seeds == [0, 7]


# Selection and measurement


def test_the_network_that_won_most_of_the_selection_is_measured(found: Seen) -> None:
    shares = [share for _, _, share in found.selected]
    assert len(shares) == 3  # before the first update, and after each
    assert shares[0] == 0.5  # the start is the agent itself
    result = found.result()
    assert result["responder_steps"] == int(np.argmax(shares)) * ROLLOUT
    assert (result["start"], result["trained_steps"]) == (result["agent"], 2 * ROLLOUT)


def test_the_figures_are_those_of_the_matches(found: Seen) -> None:
    result = found.result()
    lines = (found.folder / "arena" / "line_ups.jsonl").read_text(encoding="utf-8").splitlines()
    wins = sum(line["seats"][line["winner"]] == result["responder"] for line in map(json.loads, lines))
    assert result["matches"] == len(lines) == 100
    assert result["win_rate"]["mean"] == pytest.approx(wins / 100)
    for name in ("mean", "low", "high"):
        assert result["exploitability"][name] == pytest.approx(result["win_rate"][name] - 0.5)
    assert result["win_rate"]["low"] < result["win_rate"]["mean"] < result["win_rate"]["high"]
    document = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text(encoding="utf-8")
    _, _, section = document.partition("\n## Exploitability")
    for key in result:
        assert f"`{key}`" in section, key


def test_what_is_printed() -> None:
    share = {"mean": 0.53, "low": 0.51, "high": 0.55}
    result = {
        "agent": "net-2p",
        "win_rate": share,
        "exploitability": {name: value - 0.5 for name, value in share.items()},
        "even": 0.5,
        "matches": 4000,
        "forfeits": 0,
        "responder": "x/run/checkpoints/best",
        "responder_steps": 1000,
        "trained_steps": 2048,
    }
    assert lines_of(result).splitlines() == [
        "the responder wins 0.530 [0.510, 0.550] of 4,000 matches; the even share is 0.500",
        "exploitability of net-2p: at least +0.030 [+0.010, +0.050]",
        "responder: x/run/checkpoints/best, after 1,000 of 2,048 decisions",
    ]
    nothing = {**result, "exploitability": {"mean": 0.0, "low": -0.02, "high": 0.02}, "forfeits": 3}
    told = lines_of(nothing).splitlines()
    assert told[2].startswith("this attempt shows no exploit")
    assert told[3] == "3 of these matches were won because the agent forfeited them"


def test_a_weak_agent_is_exploited(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What has learned nothing wins half its matches against `random`, give or take; training makes the difference."""
    given = ["random", "--start", str(tiny), "--steps", str(2 * ROLLOUT), "--matches", "200"]
    out = tmp_path / "out"
    assert main([*given, "--best-response", "--selection-matches", "40", "--out", str(out)]) == 0
    result = json.loads((out / "best_response.json").read_text(encoding="utf-8"))
    assert result["responder_steps"] > 0
    assert result["exploitability"]["low"] > 0
    assert re.search(r"^exploitability of random: at least \+0\.\d{3} \[\+0\.", capsys.readouterr().out, re.MULTILINE)


# Going on


def assert_same(folder: Path, found: Seen) -> None:
    """Figures, networks and matches are those of the other attempt."""
    result = json.loads((folder / "best_response.json").read_text(encoding="utf-8"))
    mine = {"responder": str(folder / "run/checkpoints/best"), "command": result["command"]}
    assert result == {**found.result(), **mine}
    for name in ("best", "last"):
        assert same_weights(folder / "run/checkpoints" / name, found.folder / "run/checkpoints" / name)
    matches = [(each / "arena" / "matches.jsonl").read_bytes() for each in (folder, found.folder)]
    assert matches[0] == matches[1]


def test_an_attempt_that_is_stopped_twice_equals_one_that_is_not(
    found: Seen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is stopped in its second rollout, and in the second chunk of the measurement."""
    out = tmp_path / "out"
    kept = f"\nstopped: {out} keeps what was trained and played; --resume --out {out} goes on\n"
    with pytest.MonkeyPatch.context() as patch:
        calls, step = iter(range(100)), SelfPlayVecEnv.step_wait

        def stopped_step(tables: SelfPlayVecEnv) -> Any:
            if next(calls) == 40:
                raise KeyboardInterrupt
            return step(tables)

        patch.setattr(SelfPlayVecEnv, "step_wait", stopped_step)
        assert main([*found.arguments, "--out", str(out)]) == 130
    assert capsys.readouterr() == ("", kept)
    assert not (out / "arena").exists()

    with pytest.raises(SystemExit):
        main([*found.arguments, "--out", str(out)])
    assert (
        f"--out {out} is not empty: give --resume to go on with its attempt, or another --out"
        in capsys.readouterr().err
    )

    with pytest.MonkeyPatch.context() as patch:
        play_chunk = crew.play_chunk

        def stopped_chunk(plan: Any, sides: Any, chunk: Any) -> Any:
            if chunk.first:
                raise KeyboardInterrupt
            return play_chunk(plan, sides, chunk)

        patch.setattr(crew, "play_chunk", stopped_chunk)
        assert main([*found.arguments, "--out", str(out), "--resume"]) == 130
    output, errors = capsys.readouterr()
    assert "of 64 matches" in output
    assert errors == f"stopped: what follows is of the blocks that were finished\n{kept}"

    assert main([*found.arguments, "--out", str(out), "--resume"]) == 0
    assert_same(out, found)


def test_train_goes_on_with_the_training(found: Seen, tmp_path: Path) -> None:
    """The folder of the run is one as `train.py --resume` takes it; a finished one stays as it is."""
    config = read_config(found.folder / "run" / "config.yaml")
    assert (config.ppo.pool, config.ppo.pool_share, config.ppo.snapshots) == ((found.arguments[0],), 1.0, 0)
    last = weights(found.folder / "run/checkpoints/last")
    assert resume(found.folder / "run", show_progress=False) == found.folder / "run"
    assert all(torch.equal(last[key], value) for key, value in weights(found.folder / "run/checkpoints/last").items())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--steps", "64"], f"--steps was {2 * ROLLOUT} there, and is 64 now"),
        (["--seed", "4"], "--seed was 3 there, and is 4 now"),
        (["--start", "none"], "--start was .*tiny there, and is none now"),
        (["--selection-matches", "42"], "--selection-matches was 40 there, and is 42 now"),
    ],
)
def test_another_attempt_is_not_gone_on_with(
    more: list[str], told: str, found: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (found.folder / "best_response.json").read_bytes()
    with pytest.raises(SystemExit) as stop:
        main([*found.arguments, *more, "--out", str(found.folder), "--resume"])
    assert stop.value.code == 2
    assert re.search(f"holds another run: {told}", capsys.readouterr().err)
    assert (found.folder / "best_response.json").read_bytes() == before


def test_without_out_every_attempt_has_a_new_folder(
    found: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "best-response").mkdir(parents=True)
    assert main(found.arguments) == 0
    assert "written to runs/best-response-2: best_response.json, arena, run\n" in capsys.readouterr().out
    assert_same(Path("runs/best-response-2"), found)
    assert not list((tmp_path / "runs" / "best-response").iterdir())


def test_out_has_to_be_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for out in (file, file / "response"):
        with pytest.raises(SystemExit) as stop:
            main(["greedy", "--best-response", "--out", str(out)])
        assert stop.value.code == 2
        assert f"error: --out must be a folder, and {file} is none" in capsys.readouterr().err
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "told"),
    [([], "is not empty: give --resume"), (["--resume"], "holds no attempt that --resume could go on with")],
)
def test_no_attempt_is_mixed_into_a_run_of_the_arena(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "arena"
    assert main(["greedy", "random", "--matches", "2", "--out", str(out)]) == 0
    before = sorted(out.rglob("*"))
    with pytest.raises(SystemExit) as stop:
        main(["greedy", "--best-response", "--out", str(out), *flags])
    assert stop.value.code == 2
    assert f"error: --out {out} {told}" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before


# The configuration


def test_rollouts_are_large_where_there_are_decisions_for_them() -> None:
    def tables(steps: int) -> int:
        config = training_config(Attempt("greedy", steps=steps), Path("x"))
        assert config.ppo.rollout_steps == 64
        return config.ppo.num_envs

    assert [tables(steps) for steps in (2**21, 2**20, 2**20 - 1, 65_536, 6_400, 65, 1)] == [
        2048,
        2048,
        1024,
        1024,
        100,
        2,
        1,
    ]


def test_where_training_begins(tiny: Path) -> None:
    def start(agent: str, **given: Any) -> tuple[str, tuple[int, ...]]:
        config = training_config(Attempt(agent, **given), Path("x"))
        return config.start, config.hidden

    assert start(str(tiny)) == (str(tiny), (32,))
    assert start("pimc:2") == ("net-2p", (512, 256))
    assert start("greedy", num_players=4) == ("net-4p", (512, 256))
    assert start("greedy", start=str(tiny)) == (str(tiny), (32,))
    assert start(str(tiny), start="none") == ("", (512, 256))


# The command line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("greedy random --best-response", "--best-response takes one agent, not 2"),
        ("greedy --best-response --gauntlet", "--gauntlet does not go with --best-response"),
        ("greedy --best-response --until-decided", "--until-decided does not go with --best-response"),
        ("greedy --best-response --elo 0 20", "--elo does not go with --best-response"),
        ("greedy --best-response --sample", "--sample does not go with --best-response"),
        ("greedy --best-response --move-timeout 1", "--move-timeout does not go with --best-response"),
        ("greedy --best-response --rate-all", "--rate-all does not go with --best-response"),
        ("greedy random --steps 0", "--steps needs --best-response"),
        ("greedy random --start net-2p", "--start needs --best-response"),
        ("greedy random --selection-matches 5", "--selection-matches needs --best-response"),
        ("greedy --best-response --steps 0", "--steps must be within 1 .. "),
        ("greedy --best-response --matches 0", "--matches must be at least 1"),
        ("greedy --best-response --matches 1000000001", "--matches must be within 1 .. 1000000000 with"),
        ("greedy --best-response --selection-matches 0", "--selection-matches must be within 1 .. "),
        ("greedy --best-response --seed 1000001", "--seed must be within 0 .. 1000000 with --best-response"),
        ("greedy --best-response --workers 0", "--workers must be within 1 .. 1024"),
        ("greedy --best-response --resume", "--resume needs --out"),
        ("greedy --best-response --start greedy", "--start must be a network, such as net-2p"),
        ("greedy --best-response --start=", "--start must be a network, such as net-2p or the folder of a checkpoint"),
        ("greedy --best-response --start net-3p", "--start: agent 'net-3p' was trained for 3 seats"),
        ("nobody --best-response", "no agent 'nobody'"),
        ("net-3p --best-response", "agent 'net-3p' was trained for 3 seats, and the match has 2"),
        ("clairvoyant:1 --best-response", "agent 'clairvoyant:1' sees hidden tiles"),
        ("greedy+random --best-response --players 4", "not the pair 'greedy+random'"),
    ],
)
def test_wrong_arguments(
    arguments: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
