"""Recorded matches as arrays of decisions, for learning from data: a file for numpy or for Parquet.

    fivesup record --agents greedy,net-2p --matches 100 --seed 1 --out matches.jsonl
    python examples/matches_to_arrays.py matches.jsonl --out decisions.npz
    python examples/matches_to_arrays.py matches.jsonl --out decisions.parquet

Every match is played again through the rules, and each action becomes a row; `COLUMNS` tells what is in it. The input
can also be the `matches.jsonl` of ``evaluate.py --out``, or - for standard input. Parquet needs `fivesup[data]`.

`load` reads either file back, and `replay_rows` plays its matches. Prints how many rows of how many matches were
written, and the size of the file. A line that is no record, or not true to the rules, is named, and nothing is written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fivesup_env import Match
from fivesup_env.actions import NUM_ENDS_ACTIONS, action_mask, action_move, ends_id
from fivesup_env.files import replacing
from fivesup_env.notation import move_text, parse_move
from fivesup_env.observation import OBS_SIZE, encode
from fivesup_env.records import Record, RecordError, read_records, replay_steps
from fivesup_env.rules.scoring import side_of
from fivesup_env.rules.state import num_sides

#: A row for each action, forced ones too: name, type, and numbers in a row.
COLUMNS: Final = (
    ("observation", np.int8, OBS_SIZE),  # of the seat that acts, before it does
    ("action_mask", np.int8, NUM_ENDS_ACTIONS),  # the legal `ends` ids; forced where there is one only
    ("action", np.int16, 1),  # the `ends` id that was taken
    ("seat", np.int8, 1),  # who acts
    ("match", np.int32, 1),  # number of the match in the file, from 0: its line, less 1
    ("round", np.int16, 1),  # number of the round in the match, from 1
    ("return", np.float32, 1),  # what reward="win" pays the seat until the end of the match; 0 if nobody has won
    ("num_players", np.int8, 1),
    ("seed", np.uint64, 1),  # match seed: with it and the actions, the match can be played again
)
Arrays: TypeAlias = dict[str, NDArray[Any]]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the command line, and write the arrays of a file of records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", metavar="FILE", help="match records; - for standard input")
    parser.add_argument("--out", required=True, metavar="FILE", help="what to write: *.npz or *.parquet")
    args = parser.parse_args(argv)
    try:
        write = WRITERS[Path(args.out).suffix]
    except KeyError:
        parser.error(f"--out must end with {' or '.join(WRITERS)}, not be {args.out}")
    try:
        arrays = arrays_of(read_records(sys.stdin if args.file == "-" else args.file))
        with replacing(args.out, binary=True) as file:
            write(file, arrays)
    except (RecordError, ImportError) as error:
        missing = f'{error}: pip install "fivesup[data]"'
        parser.error(f"{args.file}: {error}" if isinstance(error, RecordError) else missing)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    rows, matches, size = len(arrays["match"]), arrays["match"][-1] + 1, os.path.getsize(args.out)
    print(f"wrote {rows:,} rows of {matches:,} matches to {args.out}, {size:,} bytes")


def arrays_of(records: Iterable[Record]) -> Arrays:
    """Return the rows of matches, by column: 881 bytes a row, all in memory.

    Raises:
        RecordError: a match is not of the real game, dealt from its seed, or not true to the rules; names its line.
    """
    rows = [row for number, record in enumerate(records, 1) for row in rows_of(record, number)]
    if not rows:
        raise RecordError("there are no matches")
    columns = zip(*rows, strict=True)
    return {name: np.array(column, dtype) for (name, dtype, _), column in zip(COLUMNS, columns, strict=True)}


def rows_of(record: Record, line: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one match, each with the entries that `COLUMNS` has."""
    num_players, seed = record["num_players"], record["seed"]
    before = Match()
    for step in replay_steps(record, line):
        if not step.move:
            if step.round == 1 and step.match != Match(num_players, seed):
                raise RecordError(f"line {line}: only matches of the real game, dealt from their seed, can be taken")
        else:
            seen = before.view(step.seat).state
            done = encode(seen), action_mask(seen), ends_id(*parse_move(step.move)), step.seat
            yield *done, line - 1, step.round, return_of(record, step.seat), num_players, seed
        before = step.match.clone()  # the replay goes on with its own


def return_of(record: Record, seat: int) -> float:
    """Return what reward="win" pays a seat in a match: 1, or -1 shared by the losing sides; 0 if nobody has won."""
    num_players, winner = record["num_players"], record["winner"]
    if winner is None:
        return 0.0
    return 1.0 if side_of(num_players, seat) == winner else -1.0 / (num_sides(num_players) - 1)


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """Write the arrays for `numpy.load`, compressed."""
    np.savez_compressed(file, allow_pickle=False, **arrays)


def write_parquet(file: IO[bytes], arrays: Arrays) -> None:
    """Write the arrays as a Parquet table; several numbers a row are a list of fixed size.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        name: pa.array(arrays[name])
        if size == 1
        else pa.FixedSizeListArray.from_arrays(pa.array(arrays[name].reshape(-1)), size)
        for name, _, size in COLUMNS
    }
    parquet.write_table(pa.table(columns), file, compression="zstd")


WRITERS: Final = {".npz": write_npz, ".parquet": write_parquet}


def load(path: str) -> Arrays:
    """Return the arrays of a file that this program has written."""
    if path.endswith(".npz"):
        with np.load(path) as file:
            return dict(file)
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = {name: table[name].combine_chunks() for name, _, _ in COLUMNS}
    return {
        name: columns[name].to_numpy() if size == 1 else columns[name].flatten().to_numpy().reshape(-1, size)
        for name, _, size in COLUMNS
    }


def replay_rows(arrays: Arrays) -> Iterator[Match]:
    """Play the matches of all rows again, and yield each as it stands after its last row.

    Raises:
        ValueError: the rows are not those of matches; names the first that cannot be played.
    """
    starts = np.flatnonzero(np.diff(arrays["match"], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(arrays["match"])], strict=True):
        match = Match(int(arrays["num_players"][start]), int(arrays["seed"][start]))
        for row in range(start, stop):
            if match.round_over:
                match.next_round()
            action = int(arrays["action"][row])
            if match.turn != arrays["seat"][row] or not action_mask(match.state)[action]:
                raise ValueError(f'row {row}: seat {arrays["seat"][row]} cannot take action {action} in "{match!r}"')
            match.play(move_text(*action_move(match.state, action)))
        yield match


if __name__ == "__main__":
    main()
