"""A lower bound on an agent's exploitability: a network is trained against it, and then plays it on other deals.

The exploitability of an agent is how much more than the even share of matches a best response to it wins. No responder
wins more than a best one does, so the share that any responder wins, less the even share, is a lower bound. This
responder is a network trained by PPO at tables where all other sides are the agent, which learns nothing.

**Deals.** Selection and measurement have deals of their own. Those of the training are the match seeds from
``seed * 10**12`` on, below 2**61, and for a table's later matches seeds mixed from these, which meet the others by
chance alone. The network that is measured is the one that won most of the matches for selection, after any update or
before the first; these begin at match seed 2**63. Those of the measurement lie between, from 2**62 on, others for each
seed. So the measured share owes nothing to the luck of what was selected.

**The folder** of an attempt holds `run/`, the training (`run.py`, so ``train.py --resume`` goes on with it), `arena/`,
the measurement (`agents/arena/evaluation.py`), and `best_response.json`, what came of both. docs/evaluation.md explains
its keys.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from agents.agent import is_network, load_network, make_player, partners
from agents.arena.blocks import block_size
from agents.arena.chunks import write_whole
from agents.arena.crew import Crew
from agents.arena.evaluation import check_folder, play, write_all
from agents.arena.tournament import Plan
from agents.training.agent_names import load_start
from agents.training.config import Config, EvalConfig, PpoConfig, SearchConfig
from agents.training.run import resume, train
from agents.training.run_folder import read_run, unused

RESULT_VERSION: Final = 1  # of `best_response.json`
NO_START: Final = "none"  # begin with random weights

_FOLDER: Final = "runs/best-response"  # where none is given
_RUN, _ARENA, _RESULT = "run", "arena", "best_response.json"
_MEASURED_SEED: Final = 2**62  # above the deals of any training, below those of any selection
_SEED_GAP: Final = 10**9  # between the match seeds of two measurements whose `seed` differs by 1
_MOST_SEED: Final = 1_000_000  # that a training run can have
_MOST_MATCHES: Final = 10**9
_HIDDEN: Final = (512, 256)  # widths of a network that begins with random weights
_ROLLOUT_STEPS: Final = 64
_MANY_STEPS: Final = 2**20  # from so many on, there are enough rollouts of 2048 tables


@dataclass(frozen=True)
class Attempt:
    """One attempt to find a best response; on the CPU, its result follows from this to the last bit.

    Attributes:
        agent: text of the agent, see `make_agent`.
        num_players: seats. With three, the responder has one against two copies of the agent; with four, two copies of
            each are partners.
        steps: decisions of the responder to train for, rounded up to whole rollouts.
        start: text of the network that it begins with, or `NO_START`; None for the agent if that is a network, else
            for the one of the package for as many seats.
        selection_matches: matches after each update, by which the network to be measured is selected.
        matches: matches of the measurement. Both are rounded up to whole blocks.
        seed: of training and measurement.
        workers: threads of the training, whose number can change its last bits, and processes of the measurement.

    Raises:
        ValueError: a number is out of range; names the flag.
    """

    agent: str
    num_players: int = 2
    steps: int = 2**21
    start: str | None = None
    selection_matches: int = 1000
    matches: int = 1000
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        limits = {
            "steps": (1, 2**53),
            "selection_matches": (1, 2**31),
            "matches": (1, _MOST_MATCHES),
            "seed": (0, _MOST_SEED),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                flag = "--" + name.replace("_", "-")
                raise ValueError(f"{flag} must be within {low} .. {high} with --best-response, not {value}")


def respond(attempt: Attempt, folder: Path | None, command: Sequence[str], *, go_on: bool = False) -> int:
    """Train, measure, print, and write.

    Args:
        attempt: what to do.
        folder: of the attempt; None for a new one in `runs`.
        command: the arguments of the command line.
        go_on: go on with the attempt that the folder holds; without it, it must be empty or new.

    Returns:
        The exit status: 0, or 130 after Ctrl-C.

    Raises:
        ValueError: agent or start cannot be made or cannot play here, or the folder is none or holds something else;
            says what.
    """
    folder = folder or unused(Path(_FOLDER))
    _check_out(folder, go_on)
    config = training_config(attempt, folder / _RUN)
    try:
        _train(config)
        finished = _measure(attempt, config, folder, command)
    except KeyboardInterrupt:
        finished = False
    if not finished:
        kept = f"{folder} keeps what was trained and played" if folder.exists() else "nothing is kept yet"
        print(f"\nstopped: {kept}; --resume --out {folder} goes on", file=sys.stderr)
    return 0 if finished else 130


def _check_out(folder: Path, go_on: bool) -> None:
    """Check that the folder of an attempt is new or empty, or holds an attempt that is to be gone on with.

    Raises:
        ValueError: it is no folder, or holds something else; says what.
    """
    check_folder(folder)
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not go_on:
        raise ValueError(f"--out {folder} is not empty: give --resume to go on with its attempt, or another --out")
    if not (folder / _RUN).exists():
        raise ValueError(f"--out {folder} holds no attempt that --resume could go on with: give another --out")


def _train(config: Config) -> None:
    """Train, or go on with the training, if it is not finished.

    Raises:
        ValueError: the folder of the run holds another one; names what differs.
    """
    run, show = Path(config.run), sys.stderr.isatty()
    if run.exists():
        _check_same(read_run(Config, run), config)
        resume(run, show_progress=show)
    else:
        train(config, show_progress=show)


def _measure(attempt: Attempt, config: Config, folder: Path, command: Sequence[str]) -> bool:
    """Play the responder against the agent, print and write what came of it; return whether all matches were played."""
    responder = Path(config.run) / "checkpoints" / "best"
    plan = measurement(attempt, responder)
    played, results = play(plan, partial(Crew, workers=attempt.workers), folder / _ARENA, command)
    if results["pairs"]:
        write_all(folder / _ARENA, plan, played, results)
        result = result_of(attempt, config, responder, results)
        write_whole(folder / _RESULT, (json.dumps(result, indent=1) + "\n").encode())
        print(lines_of(result))
        print(f"written to {folder}: {_RESULT}, {_ARENA}, {_RUN}")
    return all(result.finished for result in played)


def training_config(attempt: Attempt, run: Path) -> Config:
    """Return the configuration of the training.

    Rollouts are large, with small steps and no entropy: after a fit, more noise makes a network weaker
    (docs/experiments.md). It is evaluated and saved at every update rather than by the clock, so that what is selected
    follows from the attempt alone.

    Raises:
        ValueError: agent or start cannot be made, or cannot play here; says why.
    """
    if len(partners(attempt.agent)) > 1:
        raise ValueError(f"--best-response takes an agent that plays every seat, not the pair {attempt.agent!r}")
    make_player(attempt.agent, attempt.num_players)
    tables = min(2048 if attempt.steps >= _MANY_STEPS else 1024, -(-attempt.steps // _ROLLOUT_STEPS))
    start = _start_of(attempt)
    config = Config(
        run=str(run),
        seed=attempt.seed,
        num_players=attempt.num_players,
        threads=attempt.workers,
        start=start or "",
        search=SearchConfig(iterations=0),
        ppo=PpoConfig(
            total_steps=attempt.steps,
            num_envs=tables,
            rollout_steps=_ROLLOUT_STEPS,
            minibatch_size=min(4096, tables * _ROLLOUT_STEPS),
            epochs=2,
            learning_rate=2e-4,
            entropy_coef=0.0,
            pool_share=1.0,
            pool=(attempt.agent,),
            pool_sample=False,
            snapshots=0,
        ),
        evaluation=EvalConfig(
            every_minutes=0.0,
            opponents=(attempt.agent,),
            matches=attempt.selection_matches,
            rating_matches=0,
        ),
        **_shape_of(start),
    )
    if start is not None:
        try:
            load_start(config)
        except ValueError as error:
            raise ValueError(f"--{error}") from None
    return config


def _start_of(attempt: Attempt) -> str | None:
    """Return the text of the network that training begins with, None for random weights."""
    if attempt.start is not None:
        return None if attempt.start == NO_START else attempt.start
    return attempt.agent if is_network(attempt.agent) else f"net-{attempt.num_players}p"


def _shape_of(start: str | None) -> dict[str, Any]:
    """Return what a configuration has to have in common with the network that it starts from."""
    if start is None:
        return {"hidden": _HIDDEN}
    if not start or not is_network(start):  # Path("") would be the current folder
        raise ValueError(
            f'--start must be a network, such as net-2p or the folder of a checkpoint, or "{NO_START}", not {start!r}'
        )
    try:
        network = load_network(start)
    except ValueError as error:
        raise ValueError(f"--start: {error}") from None
    return {"hidden": network.hidden} | ({"reward_scale": network.reward_scale} if network.reward_scale else {})


def _check_same(kept: Config, config: Config) -> None:
    """Check that a training is that of this attempt; its folder may have moved, and it keeps its threads.

    Raises:
        ValueError: it is another one; names what differs.
    """
    wanted = dataclasses.replace(config, run=kept.run, threads=kept.threads)
    now = _flags_of(wanted)
    for name, was in _flags_of(kept).items():
        if was != now[name]:
            raise ValueError(f"{config.run} holds another run: {name} was {was} there, and is {now[name]} now")
    if kept != wanted:
        raise ValueError(f"{config.run} holds another run: other keys of its config.yaml differ")


def _flags_of(config: Config) -> dict[str, Any]:
    """Return by what flags such a training is asked for."""
    return {
        "AGENT": config.ppo.pool[0] if config.ppo.pool else None,
        "--players": config.num_players,
        "--seed": config.seed,
        "--start": config.start or NO_START,
        "--steps": config.ppo.total_steps,
        "--selection-matches": config.evaluation.matches,
    }


def measurement(attempt: Attempt, responder: Path) -> Plan:
    """Return the plan of the matches that tell how much the responder wins."""
    return Plan(
        agents=(str(responder), attempt.agent),
        pairs=((0, 1),),
        num_players=attempt.num_players,
        blocks=-(-attempt.matches // block_size(attempt.num_players)),
        seed=_MEASURED_SEED + attempt.seed * _SEED_GAP,
        keep_matches=True,
    )


def result_of(attempt: Attempt, config: Config, responder: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Return what `best_response.json` holds.

    Args:
        attempt: what was done.
        config: of the training.
        responder: folder of the network that was measured.
        results: of the arena.
    """
    (pair,) = results["pairs"]
    share = {name: pair[key] for name, key in (("mean", "win_rate"), ("low", "low"), ("high", "high"))}
    return {
        "version": RESULT_VERSION,
        "agent": attempt.agent,
        "players": attempt.num_players,
        "exploitability": {name: value - pair["even"] for name, value in share.items()},
        "win_rate": share,
        "even": pair["even"],
        "matches": pair["matches"],
        "blocks": pair["blocks"],
        "match_seed": results["seed"],
        "responder": str(responder),
        "responder_steps": _steps_of(responder),
        "trained_steps": _steps_of(responder.with_name("last")),
        "start": config.start or None,
        "selection_matches": attempt.selection_matches,
        "seed": attempt.seed,
        "forfeits": pair["forfeits_b"],
        "command": results["command"],
        "versions": results["versions"],
    }


def lines_of(result: dict[str, Any]) -> str:
    """Return the lines for the terminal."""
    share, bound = result["win_rate"], result["exploitability"]
    lines = [
        f"the responder wins {_told(share)} of {result['matches']:,} matches; the even share is {result['even']:.3f}",
        f"exploitability of {result['agent']}: at least {_told(bound, '+')}",
    ]
    if bound["low"] <= 0:
        lines.append("this attempt shows no exploit: its interval reaches 0, which is no proof that there is none")
    if result["forfeits"]:
        lines.append(f"{result['forfeits']:,} of these matches were won because the agent forfeited them")
    steps = f"{result['responder_steps']:,} of {result['trained_steps']:,}"
    lines.append(f"responder: {result['responder']}, after {steps} decisions")
    return "\n".join(lines)


def _told(found: dict[str, float], sign: str = "") -> str:
    """Return an estimate with its interval, as "0.530 [0.510, 0.550]"."""
    mean, low, high = (format(found[name], f"{sign}.3f") for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _steps_of(checkpoint: Path) -> int:
    """Return how many decisions a network had been trained for."""
    return int(json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))["steps"])
