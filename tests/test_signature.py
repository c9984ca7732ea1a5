"""What the engine does, pinned: a hash of many matches, counts of action sequences, and whole matches as text.

The expected values lie in tests/data and are written anew by ``pytest --regen``. A change of one of them is a change of
the game's behaviour: the commit that makes it says so.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fivesup_env import Match
from fivesup_env._jit import kernel
from fivesup_env.actions import ends_mask, ends_step, ports_mask, ports_step
from fivesup_env.observation import OBS_SIZE, describe, encode, write_observation
from fivesup_env.rules.chance import below, mix
from fivesup_env.rules.play import start_match, start_next_round
from fivesup_env.rules.state import RUNNING, STATE, WON, State, States
from tests.conftest import deal_of, lay
from tests.reference import Reference

Stored = Callable[[str, str], str]

# The signature


@kernel
def _hash_bytes(digest: np.uint64, values: NDArray[np.int8]) -> Any:
    for value in values:
        digest = (digest ^ np.uint64(value)) * np.uint64(0x100000001B3)
    return digest


@kernel
def _play_matches(states: States, mask: NDArray[np.int8], out: NDArray[np.int8], told: States) -> None:
    """Play the match of seed i in row i by random legal actions, and hash all that happens in it.

    `told` [N, 4] gets: a hash of turns, masks, actions, sums of the ends, events and scores; a hash of the observations
    of the seats to move, in every eighth match; rounds; actions.
    """
    for row in range(len(states)):
        state = states[row]
        state.seed = row
        start_match(state)
        key, played, seen, actions = np.uint64(row), np.uint64(row), np.uint64(row), 0
        while state.result != WON:
            if state.result != RUNNING:
                start_next_round(state)
            if row % 8 == 0:
                write_observation(state, np.int64(state.turn), out, 0)
                seen = _hash_bytes(seen, out)
            ends_mask(state, mask, 0)
            legal = np.flatnonzero(mask)
            choice, key = below(key, len(legal))
            played = mix(played, np.uint64(np.int64(state.turn) * 65536 + len(legal) * 256 + legal[choice]))
            ends_step(state, legal[choice])
            actions += 1
            played = _hash_points(played, state)
        told[row, 0], told[row, 1], told[row, 2], told[row, 3] = played, seen, state.round_number, actions


@kernel
def _hash_points(digest: np.uint64, state: State) -> Any:
    digest = mix(digest, np.uint64(np.int64(state.total) * 4 + np.int64(state.result)))
    for index in range(np.int64(state.num_events)):
        for part in state.events[index]:
            digest = mix(digest, np.uint64(part))
    for score in state.scores:
        digest = mix(digest, np.uint64(np.int64(score) + 1_000_000))
    return digest


def signature_line(seats: int, count: int) -> str:
    """What the matches of seeds 0 .. count - 1 come to, on one line."""
    states = np.zeros(count, STATE)
    states[:] = Match(seats, seed=0).state
    told = np.zeros((count, 4), np.uint64)
    _play_matches(states, np.zeros(163, np.int8), np.zeros(OBS_SIZE, np.int8), told)
    played, seen = (hashlib.sha256(told[:, column].astype("<u8").tobytes()).hexdigest()[:32] for column in (0, 1))
    rounds, actions = told[:, 2:].sum(axis=0).tolist()
    wins = ",".join(str(count) for count in np.bincount(states["result_of"]))
    return f"seats={seats} matches={count} rounds={rounds} actions={actions} wins={wins} play={played} seen={seen}\n"


def test_signature(stored: Stored) -> None:
    fresh = signature_line(2, 4000) + signature_line(3, 3000) + signature_line(4, 3000)
    assert fresh.splitlines() == stored("signature.txt", fresh).splitlines()


# Perft: how many sequences of n actions there are


@kernel
def _perft(stack: States, masks: NDArray[np.int8], next_action: NDArray[np.int64], depth: int, by_ends: bool) -> Any:
    """Count the sequences of `depth` actions from ``stack[0]``; the arrays have a row per action of a sequence."""
    count, level = 0, 0
    _write_mask(stack[0], masks[0], by_ends)
    next_action[0] = 0
    while level >= 0:
        mask, action = masks[level], next_action[level]
        while action < len(mask) and mask[action] == 0:
            action += 1
        if action == len(mask):
            level -= 1
            continue
        next_action[level] = action + 1
        if level == depth - 1:
            count += 1
            continue
        level += 1
        stack[level] = stack[level - 1]
        if by_ends:
            ends_step(stack[level], action)
        else:
            ports_step(stack[level], action)
        _write_mask(stack[level], masks[level], by_ends)
        next_action[level] = 0
    return count


@kernel
def _write_mask(state: State, mask: NDArray[np.int8], by_ends: bool) -> None:
    if by_ends:
        ends_mask(state, mask, 0)
    else:
        ports_mask(state, mask, 0)


def perft(match: Match, depth: int, codec: str) -> int:
    """How many sequences of exactly `depth` actions this round has."""
    stack = np.zeros(depth, STATE)
    stack[0] = match.state
    masks = np.zeros((depth, 163 if codec == "ends" else 450), np.int8)
    return int(_perft(stack, masks, np.zeros(depth, np.int64), depth, codec == "ends"))


def slow_perft(reference: Reference, depth: int, codec: str) -> int:
    """The same by the reference: all its legal actions, or one of each class of equivalent ones (D6)."""
    if depth == 0:
        return 1
    legal = reference.legal()
    if codec == "ends":
        legal = list({end_of(text): text for text in legal}.values())
    if depth == 1:
        return len(legal)
    total = 0
    for text in legal:
        after = copy.deepcopy(reference)
        after.play(text)
        total += slow_perft(after, depth - 1, codec)
    return total


def end_of(text: str) -> str:
    """The tile, and the value and kind of the end it joins: "1|4 1 line" for "1|4@1|1.line_a"."""
    tile, _, port = text.partition("@")
    if not port:
        return tile
    host, _, name = port.partition(".")
    kind = name.partition("_")[0]
    return f"{tile} {host[2] if name == 'high' else host[0]} {'half' if kind in ('low', 'high') else kind}"


#: Name, the round, and the depths counted: those up to the first number by the reference too.
PERFT: list[tuple[str, Match, int, int]] = [
    ("deal of seed 1, 2 seats", Match(2, seed=1), 9, 16),
    ("deal of seed 0, 3 seats", Match(3, seed=0), 7, 14),
    ("deal of seed 0, 4 seats", Match(4, seed=0), 6, 12),
    (
        "two doubles and their branches",
        lay(Match, "0|1 0|2 1|3 1|4 0|5", "1|1 0|0 1|2 0|3 3|4", boneyard="0|4 6|6"),
        6,
        12,
    ),
    (
        "draws, passes, blocks, refusals and exact wins, 2 seats",
        lay(Match, "2|5 3|4 2|6 6|6 0|5", "2|3 2|2 4|4 1|3 4|5", boneyard="5|5 3|3", scores=[295, 280]),
        11,
        18,
    ),
    (
        "the same with 3 seats",
        lay(
            Match,
            "4|4 2|2 3|5 5|6 2|5",
            "3|3 0|5 1|1 1|5 0|4",
            "0|0 1|6 0|2 2|3 1|2",
            boneyard="1|3",
            starter=2,
            scores=[280, 285, 290],
        ),
        8,
        24,
    ),
    ("small game of seed 5", Match(2, seed=5, max_pip=3, hand_size=2, target=30, without=["0|3", "2|2"]), 9, 9),
]


@pytest.mark.parametrize("codec", ["ends", "ports"])
def test_the_reference_counts_the_same_sequences(codec: str) -> None:
    for name, match, shallow, _ in PERFT:
        for depth in range(1, shallow + 1):
            slow = slow_perft(Reference.from_setup(deal_of(match)), depth, codec)
            assert perft(match, depth, codec) == slow, (name, depth)


def test_perft(stored: Stored) -> None:
    lines = []
    for name, match, _, deep in PERFT:
        lines.append(f"{name}: {match!r}")
        for codec in ("ends", "ports"):
            counts = [perft(match, depth, codec) for depth in range(1, deep + 1)]
            lines.append(f"    {codec:5} {' '.join(str(count) for count in counts)}")
    fresh = "\n".join(lines) + "\n"
    assert lines == stored("perft.txt", fresh).splitlines()


# Playthroughs: whole matches as text

#: The matches, from their first round. Those dealt for two, three and four are short ones with refused points in them.
PLAYTHROUGHS: dict[str, Match] = {
    "two": Match(2, seed=145),
    "three": Match(3, seed=329),
    "four": Match(4, seed=113),
    "small": Match(3, seed=61, max_pip=3, hand_size=2, target=40, without=["0|0"]),
}


def playthrough(match: Match, choose: Callable[[list[str]], str]) -> list[str]:
    """Play the match to its end and tell all of it, line by line; observations are those of player_0's turns."""
    lines, told = [], ""
    while match.winner is None:
        if match.round_over:
            match.next_round()
        lines += ["", f"position: {match!r}", f"open ports: {' '.join(match.open_ports()) or '-'}"]
        if match.turn == 0:
            lines += news(told, told := describe(encode(match.view(0).state)))
        text = choose(match.legal())
        lines += [f"legal: {' '.join(match.legal())}", f"action: {text}"]
        match.play(text)
        lines += [f"event: {told_event(event)}" for event in match.events]
        if match.round_over:
            lines.append(f"round over: {match.round_result} scores {match.scores} next starter {match.next_starter}")
    return lines


def news(before: str, after: str) -> list[str]:
    """What player_0 sees, but for the sections that are as they were."""
    known = before.splitlines()
    gone = {line.split()[0] for line in known} - {line.split()[0] for line in after.splitlines()}
    changed = [line for line in after.splitlines() if line not in known]
    return [f"    {line.rstrip()}" for line in changed] + [f"    {name:16} 0" for name in sorted(gone)]


def told_event(event: dict[str, Any]) -> str:
    parts = f"placement {event['placement']} settlement {event['settlement']} partner {event['partner']}"
    return f"side {event['side']} {parts} {'accepted' if event['accepted'] else 'refused'}"


def at_random(seed: int) -> Callable[[list[str]], str]:
    """A choice among legal actions, by the project's own chance."""
    key = np.uint64(seed)

    def choose(legal: list[str]) -> str:
        nonlocal key
        index, key = below(np.uint64(key), len(legal))
        return legal[int(index)]

    return choose


@pytest.mark.parametrize("name", PLAYTHROUGHS)
def test_playthrough(name: str, stored: Stored) -> None:
    match = PLAYTHROUGHS[name]
    fresh = playthrough(match.clone(), at_random(int(match.state.seed)))
    wanted = stored(f"playthroughs/{name}.txt", "\n".join(fresh) + "\n").splitlines()
    # The actions are those of the file: then a change of one thing changes the lines about that thing only.
    actions = iter([line.removeprefix("action: ") for line in wanted if line.startswith("action: ")])
    lines = playthrough(match.clone(), lambda _: next(actions))
    for number, (line, expected) in enumerate(zip(lines, wanted, strict=False), 1):
        assert line == expected, f"line {number} of playthroughs/{name}.txt"
    assert len(lines) == len(wanted)
