"""The same seed gives the same match, in any process, compiled or not, copied or saved; chance; caches of kernels."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from fivesup_env import Match
from fivesup_env._jit import cache_folder, kernel
from fivesup_env.fivesup_v0 import raw_env
from fivesup_env.observation import encode
from fivesup_env.rules.chance import below, mix, next_key, scramble, shuffle
from tests.conftest import random_mini, random_setup

ROOT = Path(__file__).parent.parent


def digest_of_matches() -> str:
    """A hash of everything that some matches go through: states, views, observations, texts."""
    digest = hashlib.sha256()
    for seats in (2, 3, 4):
        rng = random.Random(seats)
        match = Match(seats, seed=2**64 - seats)
        for _ in range(2):
            while not match.round_over:
                legal = match.legal()
                seen = match.view(match.turn)
                digest.update(repr((legal, seen, match)).encode())
                digest.update(match.to_bytes() + seen.state.tobytes() + encode(seen.state).tobytes())
                match.play(rng.choice(legal))
            match.next_round()
    return digest.hexdigest()


def run_python(code: str, *options: str, **variables: str) -> str:
    """What a fresh interpreter prints, run in the root of the project."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Processes


def test_another_process_plays_the_same_matches() -> None:
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"
    code = "from tests.test_determinism import digest_of_matches; print(digest_of_matches())"
    assert run_python(code, PYTHONHASHSEED=seed) == digest_of_matches()


def test_plain_python_plays_the_same_matches() -> None:
    # Compiled uint64 arithmetic wraps around; numpy's scalars do the same, and warn.
    code = (
        "import numba; from tests.test_determinism import digest_of_matches\n"
        "assert numba.config.DISABLE_JIT\nprint(digest_of_matches())"
    )
    plain = run_python(code, "-W", "ignore::RuntimeWarning", NUMBA_DISABLE_JIT="1", PYTHONHASHSEED="2")
    assert plain == digest_of_matches()


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, fivesup_env; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(run_python(code).split())
    assert "fivesup_env" in loaded
    heavy = {"torch", "agents", "pygame", "matplotlib", "stable_baselines3", "sb3_contrib", "tensorboard", "rich"}
    assert loaded & heavy == set()


# Copies and saves

COPIES: list[Callable[[Match], Match]] = [
    Match.clone,
    copy.copy,
    copy.deepcopy,
    lambda match: pickle.loads(pickle.dumps(match)),
    lambda match: Match.from_bytes(match.to_bytes()),
    lambda match: Match.from_text(repr(match)),
]
COPY_NAMES = ["clone", "copy", "deepcopy", "pickle", "bytes", "text"]


def moments(name: str, count: int) -> list[Match]:
    """Random moments of random matches; a third of them in the middle of a draw, where there are such."""
    found = []
    for number in range(count):
        rng = random.Random(f"{name} {number}")
        seats = 2 + number % 3
        match = [
            lambda seats, rng: Match(seats, seed=rng.getrandbits(64)),
            lambda seats, rng: Match.from_setup({**random_setup(rng, seats), "seed": rng.getrandbits(64)}),
            lambda seats, rng: Match(**random_mini(rng, seats)),
        ][number // 3 % 3](seats, rng)
        all_moments = [match.clone()]
        while match.winner is None and match.round < 4:
            if match.round_over:
                match.next_round()
            else:
                match.play(rng.choice(match.legal()))
            all_moments.append(match.clone())
        drawing = [moment for moment in all_moments if moment.state.draws and not moment.round_over]
        found.append(rng.choice(drawing if drawing and number % 3 == 0 else all_moments))
        found.append(all_moments[-1])
    return found


def test_moments_are_of_all_sorts() -> None:
    seen: Counter[str] = Counter()
    for match in moments("copies", 36):
        seen["drawing"] += bool(match.state.draws) and not match.round_over
        seen["over"] += match.round_over
        seen["won"] += match.winner is not None
        seen["later round"] += match.round > 1
        seen["opening"] += not match.history
        seen["events"] += bool(match.events)
    assert len(seen) == 6
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize("copied", COPIES, ids=COPY_NAMES)
def test_a_copy_is_equal_and_goes_on_alike_and_apart(copied: Callable[[Match], Match]) -> None:
    for number, match in enumerate(moments("copies", 36)):
        before = match.to_bytes()
        other = copied(match)
        assert type(other) is Match
        assert other == match
        assert other.to_bytes() == before
        assert (repr(other), other.legal(), other.events) == (repr(match), match.legal(), match.events)
        if match.winner is not None:
            continue
        assert go_on(other, number) == go_on(match.clone(), number)
        assert match.to_bytes() == before, "the copy's moves changed the original"


def go_on(match: Match, number: int) -> list[bytes]:
    """Play 25 random actions, into the next rounds; return the states."""
    rng = random.Random(number)
    states = []
    for _ in range(25):
        if match.winner is not None:
            break
        if match.round_over:
            match.next_round()
        else:
            match.play(rng.choice(match.legal()))
        states.append(match.to_bytes())
    return states


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("skip_forced", [False, True])
def test_a_copied_environment_goes_on_alike_and_apart(copied: Callable[[raw_env], raw_env], skip_forced: bool) -> None:
    for seats in (2, 3, 4):
        rng = random.Random(seats)
        env = raw_env(seats, reward="margin", skip_forced=skip_forced)
        env.reset(seed=seats)
        for _ in range(rng.randrange(5, 60)):
            env.step(rng.choice(np.flatnonzero(env.observe(env.agent_selection)["action_mask"]).tolist()))
        before = env.state().tobytes()
        other = copied(env)
        seed = rng.random()
        course = steps(other, seed)
        assert env.state().tobytes() == before
        assert course == steps(env, seed)
        env.reset()
        other.reset()
        assert env.state().tobytes() == other.state().tobytes(), "the next match of the sequence"


def steps(env: raw_env, seed: float) -> list[tuple[object, ...]]:
    """What an environment tells in its next steps by random actions."""
    rng = random.Random(seed)
    told: list[tuple[object, ...]] = []
    for _ in range(40):
        observation, reward, terminated, truncated, _ = env.last()
        assert observation is not None
        told.append((env.agent_selection, observation["observation"].tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            break
        env.step(rng.choice(np.flatnonzero(observation["action_mask"]).tolist()))
    return told


# Deals


def deal(match: Match) -> tuple[list[list[str]], list[str]]:
    return match.hands, match.boneyard


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_a_deal_depends_on_seed_and_round_alone(seats: int) -> None:
    for seed in (0, 1, 2**63, 2**64 - 1):
        deals: dict[int, set[str]] = {}
        lots: dict[int, set[int]] = {}
        for line_up in range(4):
            rng = random.Random(line_up)
            match = Match(seats, seed=seed, target=305 if line_up else 1000)
            for number in range(1, 7):
                if match.round_over:
                    starter = match.next_starter
                    match.next_round()
                    if starter is None:
                        lots.setdefault(number, set()).add(match.starter)
                deals.setdefault(number, set()).add(repr(deal(match)))
                while not match.round_over:
                    match.play(rng.choice(match.legal()))
                if match.winner is not None:
                    break
        assert [len(found) for found in deals.values()] == [1] * 6
        assert len(set().union(*deals.values())) == 6, "two rounds have the same deal"
        assert all(len(found) == 1 for found in lots.values())


def test_a_blocked_round_is_followed_by_the_lot_of_seed_and_round() -> None:
    # [6|6] blocks at once. The lots of round 2 are those of other matches with that seed, whoever started round 1.
    for seed in range(20):
        starters = set()
        for starter, hands in enumerate(([["6|6", "0|1"], ["0|2"]], [["0|2"], ["6|6", "0|1"]])):
            match = Match.from_setup({"num_players": 2, "hands": hands, "starter": starter, "seed": seed})
            match.play("6|6")
            assert match.round_result is not None
            match.next_round()
            starters.add(match.starter)
        assert len(starters) == 1


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_the_environment_deals_what_a_match_deals(seats: int) -> None:
    env = raw_env(seats)
    for seed in (0, 7, 2**64 - 1):
        env.reset(seed=seed)
        assert env.state().tobytes() == Match(seats, seed=seed).to_bytes()


def test_a_match_without_a_seed_is_a_random_one_that_its_seed_gives_again() -> None:
    one, other = Match(3), Match(3)
    assert one.state.seed != other.state.seed
    assert Match(3, seed=int(one.state.seed)) == one


# Chance


def test_the_sequence_is_splitmix64() -> None:
    # The first numbers from seed 1234567, as published with the algorithm's test programs.
    key, numbers = np.uint64(1234567), []
    for _ in range(5):
        key = np.uint64(next_key(key))
        numbers.append(int(scramble(key)))
    assert numbers == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@kernel
def _draw_many(bound: int, count: int, key: np.uint64) -> NDArray[np.int64]:
    drawn = np.zeros(bound, np.int64)
    for _ in range(count):
        number, key = below(key, bound)
        drawn[number] += 1
    return drawn


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 12, 13, 24, 28])
def test_below_is_uniform(bound: int) -> None:
    # Chi square has mean bound - 1 and variance 2 (bound - 1); the seed is fixed, so this passes always or never.
    counts = _draw_many(bound, 1000 * bound, np.uint64(bound))
    chi_square = float(((counts - 1000) ** 2 / 1000).sum())
    assert counts.sum() == 1000 * bound
    assert abs(chi_square - (bound - 1)) <= 4 * (2 * (bound - 1)) ** 0.5


@pytest.mark.parametrize("bound", [1, 2, 3, 28, 2**30 + 1, 2**31 - 1, 2**31])
def test_below_keeps_its_bounds(bound: int) -> None:
    key, numbers = np.uint64(5), []
    for _ in range(200):
        number, key = below(np.uint64(key), bound)
        numbers.append(int(number))
    assert 0 <= min(numbers) <= max(numbers) < bound
    if bound > 2**20:
        assert max(numbers) > 0.9 * bound
        assert min(numbers) < 0.1 * bound


def test_below_goes_on_with_the_key_of_the_number_it_took() -> None:
    # Bounds of a power of two reject nothing: one key each, and the top bits of its number.
    number, key = below(np.uint64(1234566), 4)
    assert key == next_key(np.uint64(1234566))
    assert number == int(scramble(np.uint64(key))) >> 32 & 3


def test_shuffle_makes_all_orders_alike() -> None:
    orders: Counter[tuple[int, ...]] = Counter()
    key = np.uint64(3)
    items = np.arange(6)
    for _ in range(4800):
        items[:4] = range(4)
        key = np.uint64(shuffle(items, 4, key))
        orders[tuple(items[:4].tolist())] += 1
        assert items[4:].tolist() == [4, 5]
    assert len(orders) == 24
    # 200 each; chi square has mean 23 and deviation 6.8.
    assert sum((count - 200) ** 2 / 200 for count in orders.values()) < 23 + 4 * 6.8


def test_mix_gives_keys_that_do_not_meet() -> None:
    keys = {int(mix(np.uint64(key), np.uint64(number))) for key in range(60) for number in range(60)}
    assert len(keys) == 3600
    assert mix(np.uint64(1), np.uint64(2)) != mix(np.uint64(2), np.uint64(1))


# Compiled code


def test_a_read_out_of_range_raises_where_bounds_are_checked(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(
        "from fivesup_env._jit import kernel\n\n\n@kernel\ndef read(array, index):\n    return array[index]\n"
    )
    code = (
        "import numpy as np, probe\n"
        "try:\n    probe.read(np.arange(3), 3)\nexcept IndexError as error:\n    print('IndexError:', error)\n"
        "print(probe.read(np.arange(3), 2), probe.read.stats.cache_path)"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    told = run_python(code, NUMBA_BOUNDSCHECK="1", FIVESUP_CACHE_DIR=str(tmp_path / "cache"), PYTHONPATH=path)
    error, rest = told.splitlines()
    assert error.startswith("IndexError: index is out of bounds")
    assert rest.startswith(f"2 {tmp_path / 'cache'}")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `probed` to cache for, and a place for the caches."""
    folder = tmp_path / "probed"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "rules.py").write_text("ONE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FIVESUP_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def folder_now(package: str) -> str | None:
    """The cache folder as a new process would find it: here it is remembered."""
    cache_folder.cache_clear()
    try:
        return cache_folder(package)
    finally:
        cache_folder.cache_clear()


def test_the_cache_folder_is_named_by_the_sources(package: Path) -> None:
    source = package / "inner" / "rules.py"
    first = folder_now("probed")
    source.write_text("ONE = 2\n")
    second = folder_now("probed")
    (package / "new.py").write_text("")
    third = folder_now("probed")
    (package / "new.py").unlink()
    source.write_text("ONE = 1\n")
    assert len({first, second, third}) == 3
    assert folder_now("probed") == first
    assert folder_now("fivesup_env") not in (first, second, third)
    assert first is not None
    assert Path(first).is_dir()
    assert Path(first).parent == package.parent / "cache" / "fivesup"


def test_the_cache_folder_is_another_where_bounds_are_checked(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for checked in (None, 0, 1):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", checked)
        found.add(folder_now("probed"))
    assert len(found) == 3


def test_the_cache_goes_where_the_environment_says(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(package / "numba"))
    assert str(folder_now("probed")).startswith(str(package.parent / "cache"))
    monkeypatch.delenv("FIVESUP_CACHE_DIR")
    assert str(folder_now("probed")).startswith(str(package / "numba"))


def test_kernels_work_where_nothing_can_be_cached(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIVESUP_CACHE_DIR", str(package / "__init__.py"))  # a file: no folder can lie in it
    assert folder_now("probed") is None


def test_a_kernel_leaves_the_users_cache_folder_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "the user's")

    @kernel
    def double(number: int) -> int:
        return 2 * number

    assert vars(numba.config)["CACHE_DIR"] == "the user's"
    assert double(21) == 42
