"""Intervals, the sequential test, ratings and Nash averages: worked examples, other ways to compute, simulations.

A simulation counts how often something true is found in samples drawn with known truth. With N samples, a share that
is 0.95 in truth has a standard error of sqrt(0.95 * 0.05 / N): 0.007 for 1000, 0.003 for 5000. What is asserted
allows for three of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("scipy")

from scipy import optimize, stats

from agents.arena.statistics import (
    Estimate,
    RunningMean,
    SequentialTest,
    bradley_terry,
    estimate,
    expected_score,
    nash_average,
    ratio_estimate,
)

Floats = NDArray[np.float64]
LN19 = math.log(19)  # both limits of a test with error rates of 5 %
THIRD = 1 / 3


def deal(rng: np.random.Generator, score: float, size: int, bond: float, shape: tuple[int, ...]) -> Floats:
    """Scores of blocks of `size` matches, each won with probability `score`.

    With probability abs(`bond`) the matches of a block hang together: all have one result (bond > 0), or they share
    the luck out as evenly as can be (bond < 0), as when the deal decides and all sides get it once.
    """
    luck = rng.random((*shape, 1))
    bound = np.repeat(luck, size, axis=-1) if bond > 0 else (luck + np.arange(size) / size) % 1
    draws = np.where(rng.random((*shape, 1)) < abs(bond), bound, rng.random((*shape, size)))
    return np.asarray((draws < score).mean(-1))


def deal_even(rng: np.random.Generator, score: float, decided: float, shape: tuple[int, ...]) -> Floats:
    """Scores of pairs of matches of which all but a share of `decided` end even."""
    wins = rng.random(shape) < 0.5 + (score - 0.5) / decided
    return np.where(rng.random(shape) < decided, wins, 0.5)


@pytest.mark.parametrize("bond", [-1.0, -0.4, 0.0, 0.4, 1.0])
def test_simulated_blocks_have_the_scores_and_the_correlation_they_are_meant_to(bond: float) -> None:
    for size, score in itertools.product((2, 3), (0.3, 0.5)):
        blocks = deal(np.random.default_rng(1), score, size, bond, (40_000,))
        assert blocks.mean() == pytest.approx(score, abs=0.01)
        independent = score * (1 - score) / size
        assert np.sign(round(blocks.var() / independent - 1, 1)) == np.sign(bond)


# Means


def coverage(samples: Floats, truth: float, bounds: tuple[float, float] | None = (0, 1)) -> float:
    """How often the interval of a row holds the truth."""
    intervals = [estimate(row, bounds=bounds) for row in samples]
    return float(np.mean([one.low <= truth <= one.high for one in intervals]))


def check_coverage(samples: int, blocks: int, least: float) -> None:
    rng = np.random.default_rng(2)
    for score, size, bond in itertools.product((0.5, 0.9, 0.99), (2, 3), (-0.8, 0.0, 0.5)):
        found = coverage(deal(rng, score, size, bond, (samples, blocks)), score)
        assert found >= least, (score, size, bond)
    for score, decided in ((0.5, 0.02), (0.51, 0.02), (0.5, 0.1), (0.55, 0.1)):
        assert coverage(deal_even(rng, score, decided, (samples, blocks)), score) >= least, (score, decided)


@pytest.mark.parametrize("blocks", [20, 100, 1000])
def test_bounded_intervals_hold_the_true_mean_as_often_as_they_say(blocks: int) -> None:
    check_coverage(1000, blocks, 0.93)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 5, 20, 100, 1000])
def test_bounded_intervals_hold_the_true_mean_in_large_simulations(blocks: int) -> None:
    check_coverage(5000, blocks, 0.941)


def test_intervals_narrow_with_what_the_blocks_tell() -> None:
    """At an even score the half-width is nearly 1.96 standard errors, whatever the correlation within blocks."""
    rng = np.random.default_rng(3)
    for bond in (-0.8, 0.0, 0.8):
        blocks = deal(rng, 0.5, 2, bond, (4000,))
        one = estimate(blocks)
        assert (one.high - one.low) / 2 == pytest.approx(1.96 * blocks.std() / math.sqrt(4000), rel=0.02)


def test_lower_levels_give_narrower_intervals_that_cover_less() -> None:
    samples = deal(np.random.default_rng(4), 0.6, 2, 0.0, (1000, 200))
    hits = [one.low <= 0.6 <= one.high for one in (estimate(row, level=0.5) for row in samples)]
    assert 0.5 - 3 * 0.016 <= np.mean(hits) <= 0.5 + 3 * 0.016 + 0.03  # Clopper and Pearson's is a little wide


@pytest.mark.parametrize(("blocks", "low"), [(1, 0.025), (20, 0.8316), (100, 0.9638)])
def test_a_sample_that_won_everything_has_the_interval_of_as_many_trials(blocks: int, low: float) -> None:
    """Clopper and Pearson's lower limit for n wins of n is the n-th root of 0.025."""
    won, lost = estimate(np.ones(blocks)), estimate(np.zeros(blocks))
    assert (won.mean, won.high, lost.mean, lost.low) == (1, 1, 0, 0)
    assert (won.low, 1 - lost.high) == pytest.approx((low, low), abs=5e-5)


def test_blocks_that_are_all_or_nothing_have_the_exact_binomial_interval() -> None:
    """Up to the n / (n - 1) of a variance from a sample."""
    one = estimate(np.repeat([0.0, 1.0], [400, 600]))
    exact = stats.binomtest(600, 1000).proportion_ci(0.95, "exact")
    assert dataclasses.astuple(one) == pytest.approx((0.6, exact.low, exact.high), abs=5e-5)


def test_blocks_that_all_split_evenly_still_leave_doubt() -> None:
    """4 prior blocks over n + 4 of the variance: (n + 4) n / 4 trials, of half-width 1.96 / sqrt((n + 4) n)."""
    one = estimate(np.full(1000, 0.5))
    assert (one.high - one.low) / 2 == pytest.approx(1.96 / math.sqrt(1004 * 1000), rel=0.01)


def test_a_running_mean_is_the_estimate_of_all_scores() -> None:
    samples = [deal(np.random.default_rng(5), 0.7, size, 0.3, (500,)) for size in (2, 3, 4)]
    for scores in (*samples, np.ones(50), np.zeros(50), np.full(50, THIRD), np.array([0.25])):
        running = RunningMean()
        for start in range(0, len(scores), 32):
            running.add(scores[start : start + 32])
            seen = scores[: start + 32]
            assert running.blocks == len(seen)
            for level in (0.5, 0.95):
                expected = dataclasses.astuple(estimate(seen, level))
                assert dataclasses.astuple(running.estimate(level)) == pytest.approx(expected, abs=1e-12)


def test_other_bounds_stretch_the_interval() -> None:
    blocks = deal(np.random.default_rng(5), 0.7, 2, 0.0, (50,))
    plain, stretched = estimate(blocks), estimate(10 * blocks - 4, bounds=(-4, 6))
    for name in ("mean", "low", "high"):
        assert getattr(stretched, name) == pytest.approx(10 * getattr(plain, name) - 4)


def test_an_unbounded_mean_has_students_interval() -> None:
    blocks = np.array([3.0, -20.0, 15.0, 45.0, 0.0])
    low, high = stats.t.interval(0.95, 4, blocks.mean(), stats.sem(blocks))
    assert dataclasses.astuple(estimate(blocks, bounds=None)) == pytest.approx((8.6, low, high))
    assert estimate([7.0], bounds=None) == Estimate(7, -math.inf, math.inf)


@pytest.mark.parametrize("blocks", [10, 100])
def test_intervals_of_rates_per_round_hold_the_true_rate(blocks: int) -> None:
    rng = np.random.default_rng(6)
    rounds = 4 + rng.poisson(6, (1000, blocks))
    blocked, points = rng.binomial(rounds, 0.03), rng.normal(4 * rounds, 15 * np.sqrt(rounds))
    rates = [ratio_estimate(*row, bounds=(0, 1)) for row in zip(blocked, rounds, strict=True)]
    margins = [ratio_estimate(*row) for row in zip(points, rounds, strict=True)]
    assert np.mean([one.low <= 0.03 <= one.high for one in rates]) >= 0.93
    assert np.mean([one.low <= 4 <= one.high for one in margins]) >= 0.93


def test_a_ratio_of_sums_is_not_the_mean_of_ratios() -> None:
    """4 of 10 over 1 of 1 is 5 of 11; residuals -6/11 and 6/11, so the error is sqrt(2 * 2 * 36/121) / 11."""
    one = ratio_estimate([4, 1], [10, 1])
    half = stats.t.ppf(0.975, 1) * math.sqrt(144 / 121) / 11
    assert dataclasses.astuple(one) == pytest.approx((5 / 11, 5 / 11 - half, 5 / 11 + half))


def test_equal_denominators_change_only_the_scale() -> None:
    blocks = np.array([0.0, 2.0, 1.0, 2.0])
    assert ratio_estimate(blocks, np.full(4, 2.0), bounds=(0, 1)) == estimate(blocks / 2)
    plain, per_two = estimate(blocks, bounds=None), ratio_estimate(blocks, np.full(4, 2.0))
    assert dataclasses.astuple(per_two) == pytest.approx([value / 2 for value in dataclasses.astuple(plain)])


def test_a_rate_of_zero_has_an_upper_limit() -> None:
    assert ratio_estimate(np.zeros(20), np.full(20, 8.0), bounds=(0, 1)) == estimate(np.zeros(20))


@pytest.mark.parametrize(
    ("numerators", "denominators", "bounds", "fault"),
    [
        ([], [], None, "nothing to estimate in 0 blocks"),
        ([0, 0], [0, 0], (0, 1), "nothing to estimate in 2 blocks"),
        ([1, 2], [1], None, r"shapes \(2,\) and \(1,\)"),
        ([[1]], [[1]], None, r"shapes \(1, 1\)"),
        ([0, 3], [2, 2], (0, 1), r"block 1: 3.0 / 2.0 is not within \(0, 1\)"),
        ([-1], [2], (0, 1), "block 0: -1.0 / 2.0"),
        ([1, math.nan], [1, 1], None, "block 1: nan / 1.0"),
        ([1, 1], [1, -1], None, "block 1: 1.0 / -1.0"),
        ([1], [math.inf], None, "block 0: 1.0 / inf"),
    ],
)
def test_what_is_no_ratio_is_refused(
    numerators: list[float], denominators: list[float], bounds: tuple[float, float] | None, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        ratio_estimate(numerators, denominators, bounds=bounds)


# The sequential test


@pytest.mark.parametrize(
    ("elo", "even", "score"),
    [(0, 0.5, 0.5), (400, 0.5, 10 / 11), (-400, 0.5, 1 / 11), (0, THIRD, THIRD), (400, THIRD, 5 / 6)],
)
def test_elo_is_a_factor_on_the_even_odds(elo: float, even: float, score: float) -> None:
    assert expected_score(elo, even) == pytest.approx(score)


def run(make: Callable[[int], Floats], even: float, elo1: float, tests: int) -> tuple[float, float]:
    """Run tests to their ends: how often they say "better", and how many blocks they take on average."""
    results = []
    for _ in range(tests):
        test = SequentialTest(even, elo1=elo1)
        while test.decision is None:
            test.add(make(200))
        results.append((test.decision == "better", test.blocks))
    return float(np.mean([better for better, _ in results])), float(np.mean([blocks for _, blocks in results]))


def check_error_rates(size: int, bond: float, elo1: float, tests: int, most: float) -> None:
    """Error rates, and lengths against the random walk that the ratio nearly is (Wald, Sequential Analysis, 1947).

    In it a step is on average delta**2 / (2 variance), and the walk ends 0.9 ln 19 away from where it began.
    """
    rng = np.random.default_rng(7)
    even = 1 / size
    for elo in (0, elo1):
        score = expected_score(elo, even)
        better, blocks = run(lambda n: deal(rng, score, size, bond, (n,)), even, elo1, tests)  # noqa: B023
        assert (1 - better if elo else better) <= most, elo
        delta = expected_score(elo1, even) - even
        walk = 0.9 * LN19 * 2 * deal(rng, score, size, bond, (40_000,)).var() / delta**2
        assert 0.8 * walk < blocks < 1.4 * walk, elo


@pytest.mark.parametrize("bond", [-0.4, 0.0, 0.5])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sequential_test_errs_no_more_often_than_it_may(size: int, bond: float) -> None:
    check_error_rates(size, bond, 50, 400, 0.05 + 3 * 0.011)


@pytest.mark.slow
@pytest.mark.parametrize("bond", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sequential_test_of_a_small_difference_errs_no_more_often_than_it_may(size: int, bond: float) -> None:
    check_error_rates(size, bond, 20, 2000, 0.05 + 3 * 0.005)


@pytest.mark.parametrize("decided", [0.06, 0.1, 0.3])
def test_a_sequential_test_of_pairs_that_mostly_split_evenly_errs_no_more_often(decided: float) -> None:
    rng = np.random.default_rng(8)
    for score, wrong in ((0.5, "better"), (expected_score(20, 0.5), "not better")):
        better, _ = run(lambda n: deal_even(rng, score, decided, (n,)), 0.5, 20, 200)  # noqa: B023
        assert (better if wrong == "better" else 1 - better) <= 0.05 + 3 * 0.0155, score


def test_with_two_outcomes_it_is_walds_test() -> None:
    """There a mean leaves one distribution: each win counts ln(s1 / s0), each loss ln((1 - s1) / (1 - s0))."""
    test = SequentialTest(0.5, elo1=400 * math.log10(1.5))  # 0.6 against 0.5
    test.add([1, 1, 0, 1, 0])
    assert test.llr == pytest.approx(3 * math.log(1.2) + 2 * math.log(0.8), abs=1e-9)
    assert (test.decision, test.blocks) == (None, 5)


@pytest.mark.parametrize(
    ("score", "decision", "blocks"),
    # Wins all along count ln(0.6 / 0.5) each, so ln 19 takes 16.1 of them; losses ln(0.4 / 0.5), 13.2 of them. Of
    # blocks that all split evenly, a mean of 0.6 can keep 0.8 at most, so that takes ln(0.8) each as well.
    [(1.0, "better", 17), (0.0, "not better", 14), (0.5, "not better", 14)],
)
def test_one_outcome_only_decides_after_blocks_that_can_be_counted(score: float, decision: str, blocks: int) -> None:
    test = SequentialTest(0.5, elo1=400 * math.log10(1.5))
    test.add(np.full(100, score))
    assert (test.decision, test.blocks) == (decision, blocks)


def likeliest(outcomes: Floats, counts: Floats, mean: float) -> float:
    """The greatest log-likelihood of a distribution with this mean, by a general optimiser."""

    def loss(frequencies: Floats) -> float:
        return -float(counts @ np.log(frequencies))

    demands = np.stack([np.ones_like(outcomes), outcomes])
    result = optimize.minimize(
        loss,
        np.full(len(outcomes), 1 / len(outcomes)),
        bounds=optimize.Bounds(1e-9, 1),
        constraints=optimize.LinearConstraint(demands, np.array([1, mean]), np.array([1, mean])),
        method="SLSQP",
        tol=1e-13,
    )
    return -float(result.fun)


@pytest.mark.parametrize(
    ("outcomes", "counts", "even"),
    [
        ([0, 0.5, 1], [10, 20, 15], 0.5),
        ([0, 0.25, 0.5, 0.75, 1], [3, 1, 30, 2, 4], 0.5),
        ([0, THIRD, 2 * THIRD, 1], [12, 25, 9, 5], THIRD),
    ],
)
def test_the_ratio_is_that_of_the_likeliest_distributions(
    outcomes: list[float], counts: list[int], even: float
) -> None:
    test = SequentialTest(even, elo0=-10, elo1=60, alpha=1e-9, beta=1e-9)
    test.add(np.random.default_rng(9).permutation(np.repeat(outcomes, counts)))
    assert (test.decision, test.blocks) == (None, sum(counts))
    best0, best1 = (likeliest(np.array(outcomes), np.array(counts), expected_score(elo, even)) for elo in (-10, 60))
    assert test.llr == pytest.approx(best1 - best0, abs=1e-4)


@pytest.mark.parametrize("score", [0.42, 0.5, 0.57])
def test_calls_of_any_size_decide_at_the_same_block(score: float) -> None:
    rng = np.random.default_rng(10)
    scores = deal(rng, score, 3, 0.2, (1500,))
    whole = SequentialTest(0.5, elo1=40)
    whole.add(scores)
    assert whole.decision is not None
    assert whole.blocks < 1500
    for size in (1, 7, 100):
        test = SequentialTest(0.5, elo1=40)
        for start in range(0, len(scores), size):
            test.add(scores[start] if size == 1 else scores[start : start + size])
        assert (test.decision, test.blocks) == (whole.decision, whole.blocks)
        assert test.llr == pytest.approx(whole.llr)
    before = SequentialTest(0.5, elo1=40)
    before.add(scores[: whole.blocks - 1])
    assert before.decision is None
    assert abs(before.llr) < LN19 <= abs(whole.llr)


def test_error_rates_set_the_limits() -> None:
    """With alpha 1 % and beta 10 %, ln(0.9 / 0.01) = 4.5 takes 24.7 wins, ln(0.1 / 0.99) = -2.29 takes 10.3 losses."""
    for score, blocks in ((1.0, 25), (0.0, 11)):
        test = SequentialTest(0.5, elo1=400 * math.log10(1.5), alpha=0.01, beta=0.1)
        test.add(np.full(100, score))
        assert test.blocks == blocks


@pytest.mark.parametrize(
    "numbers",
    [{"even": 0}, {"even": 1}, {"elo0": 20}, {"elo0": 30}, {"alpha": 0}, {"alpha": 0.5}, {"beta": 0}, {"beta": 0.5}],
)
def test_numbers_that_make_no_test_are_refused(numbers: dict[str, float]) -> None:
    ((name, value),) = numbers.items()
    with pytest.raises(ValueError, match=f"no test has .*{name}={value}"):
        SequentialTest(**{"even": 0.5, **numbers})


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_a_score_out_of_range_is_refused_and_changes_nothing(score: float) -> None:
    test = SequentialTest(0.5)
    test.add([1.0, 0.5])
    llr = test.llr
    with pytest.raises(ValueError, match="block 1: "):
        test.add([0.5, score])
    assert (test.blocks, test.llr) == (2, llr)


# Ratings


def rated(
    names: str, blocks: dict[tuple[str, str], Floats], even: float = 0.5
) -> dict[str, tuple[float, float, float]]:
    """Ratings by name: the value and its limits."""
    return {one.agent: (one.elo, one.low, one.high) for one in bradley_terry(names.split(), blocks, even)}


def trials(wins: float, count: int) -> Floats:
    """Blocks that are all or nothing."""
    return np.repeat([1.0, 0.0], [round(wins), count - round(wins)])


def test_odds_of_ten_are_400_points_around_a_mean_of_zero() -> None:
    found = rated("a b", {("a", "b"): trials(10_000, 11_000)})
    assert (found["a"][0], found["b"][0]) == pytest.approx((200, -200), abs=0.1)


def test_best_come_first_whatever_the_order_of_names_and_pairs() -> None:
    blocks = {("a", "c"): trials(300, 1000), ("c", "b"): trials(400, 1000), ("a", "b"): trials(210, 1000)}
    swapped = {("b", "a"): trials(790, 1000), ("c", "a"): trials(700, 1000), ("b", "c"): trials(600, 1000)}
    ratings = bradley_terry(["a", "b", "c"], blocks)
    assert [one.agent for one in ratings] == ["b", "c", "a"]
    assert sum(one.elo for one in ratings) == pytest.approx(0, abs=1e-6)
    for one, other in zip(ratings, bradley_terry(["c", "b", "a"], swapped), strict=True):
        assert one.agent == other.agent
        assert (one.elo, one.low, one.high) == pytest.approx((other.elo, other.low, other.high), abs=0.05)


def strengths_by_mm(wins: Floats, copies: int) -> Floats:
    """Ratings by Hunter's algorithm (Annals of Statistics 32, 2004) from wins [m, m] of one against `copies`."""
    m, strength = len(wins), np.ones(len(wins))
    losses = 10_000 * (1 - np.eye(m)) - wins
    for _ in range(3000):
        table = strength[:, None] + copies * strength
        weight = 10_000 * (1 - np.eye(m)) / table
        strength = (wins.sum(1) + losses.sum(0)) / (weight.sum(1) + copies * weight.sum(0))
        strength /= np.exp(np.log(strength).mean())
    return np.asarray(400 * np.log10(strength))


@pytest.mark.parametrize("copies", [1, 2])
def test_ratings_are_the_likeliest_also_where_pairs_contradict_each_other(copies: int) -> None:
    """One against one, and one against two copies in both line-ups, where an even share is 1/3."""
    names = "a b c d"
    wins = np.random.default_rng(11).integers(1000, 9000, (4, 4)).astype(float)
    np.fill_diagonal(wins, 0)
    pairs = list(itertools.permutations(range(4), 2))
    blocks = {(names.split()[i], names.split()[j]): trials(wins[i, j], 10_000) for i, j in pairs}
    found = rated(names, blocks, 1 / (1 + copies))
    assert [found[name][0] for name in names.split()] == pytest.approx(strengths_by_mm(wins, copies), abs=0.3)


def test_half_the_wins_against_two_copies_is_twice_the_strength() -> None:
    """Twice the strength is 400 log10(2) = 120.4 points; in the other line-up it leaves 1/5 to the one."""
    for blocks in (
        {("a", "b"): trials(20_000, 40_000)},
        {("b", "a"): trials(8_000, 40_000)},
        {("a", "b"): trials(20_000, 40_000), ("b", "a"): trials(8_000, 40_000)},
    ):
        found = rated("a b", blocks, THIRD)
        assert found["a"][0] - found["b"][0] == pytest.approx(120.4, abs=0.1)


@pytest.mark.parametrize(("even", "odds"), [(0.5, 201), (THIRD, 402)])
def test_an_agent_that_won_everything_has_a_finite_rating(even: float, odds: float) -> None:
    """For a single pair Firth's correction adds half a win and half a loss: odds of 100.5 to 0.5."""
    found = rated("a b", {("a", "b"): np.ones(100)}, even)
    assert found["a"][0] - found["b"][0] == pytest.approx(400 * math.log10(odds), abs=0.01)
    assert found["a"][1] > 0
    lost = rated("a b", {("b", "a"): np.zeros(100)}, 1 - even)
    assert lost["a"] == pytest.approx(found["a"], abs=0.01)


@pytest.mark.parametrize("wins", [100, 97, 50])
def test_the_interval_of_a_pair_is_that_of_its_likelihood(wins: int) -> None:
    """Where twice the logarithm of the likelihood, corrected, has lost 3.84 of its maximum, found by root finding."""
    blocks = trials(wins, 100)
    share = wins / 100
    n = 100 * (share * (1 - share) + 0.01) / (share * (1 - share) * 100 / 99 + 0.01)  # trials, with four prior blocks

    def lost(gap: float) -> float:
        return float((n * share + 0.5) * np.logaddexp(0, -gap) + (n * (1 - share) + 0.5) * np.logaddexp(0, gap))

    def excess(gap: float) -> float:
        return lost(gap) - lost(top) - float(stats.norm.ppf(0.975)) ** 2 / 2

    top = math.log((n * share + 0.5) / (n * (1 - share) + 0.5))
    low, high = optimize.brentq(excess, top - 9, top), optimize.brentq(excess, top, top + 30)
    found = rated("a b", {("a", "b"): blocks})["a"]
    scale = 400 / math.log(10) / 2
    assert found == pytest.approx((scale * top, scale * low, scale * high), abs=0.01)


def check_rating_coverage(strengths: list[float], even: float, blocks: int, bond: float, samples: int) -> float:
    """How often, over all agents, a rating's interval holds the strength of an agent."""
    rng = np.random.default_rng(12)
    truth = np.array(strengths) - np.mean(strengths)
    names = [str(i) for i in range(len(truth))]
    size, pairs = (2, itertools.combinations) if even == 0.5 else (3, itertools.permutations)
    hits = []
    for _ in range(samples):
        played = {
            (names[i], names[j]): deal(rng, expected_score(truth[i] - truth[j], even), size, bond, (blocks,))
            for i, j in pairs(range(len(truth)), 2)
        }
        found = {one.agent: one for one in bradley_terry(names, played, even)}
        hits += [found[name].low <= value <= found[name].high for name, value in zip(names, truth, strict=True)]
    return float(np.mean(hits))


CASES = [
    ([0, 100], 0.5, 20, 0.0),
    ([0, 50, 400], 0.5, 100, -0.8),
    ([0, 50, 400], THIRD, 50, 0.5),
    ([0, 0, 1200], 0.5, 100, 0.0),
]


@pytest.mark.parametrize(("strengths", "even", "blocks", "bond"), CASES)
def test_intervals_of_ratings_hold_the_true_strength(
    strengths: list[float], even: float, blocks: int, bond: float
) -> None:
    assert check_rating_coverage(strengths, even, blocks, bond, 150) >= 0.95 - 3 * 0.018


@pytest.mark.slow
@pytest.mark.parametrize(("strengths", "even", "blocks", "bond"), [*CASES, ([0, 20, 40, 60, 80, 400], 0.5, 400, 0.0)])
def test_intervals_of_ratings_hold_the_true_strength_in_large_simulations(
    strengths: list[float], even: float, blocks: int, bond: float
) -> None:
    assert check_rating_coverage(strengths, even, blocks, bond, 2000) >= 0.95 - 3 * 0.005


def test_a_long_chain_of_crushing_wins_still_has_ratings() -> None:
    names = [f"agent {i}" for i in range(12)]
    ratings = bradley_terry(names, {pair: np.ones(50) for pair in itertools.pairwise(names)})
    assert [one.agent for one in ratings] == names
    for one in ratings:
        assert -math.inf < one.low < one.elo < one.high < math.inf


def test_agents_without_a_link_are_named_by_groups() -> None:
    blocks = {("a", "b"): trials(5, 10), ("c", "d"): trials(5, 10), ("d", "e"): trials(5, 10)}
    with pytest.raises(ValueError, match=r"within the groups \[a, b\], \[c, d, e\], \[f\]"):
        bradley_terry(["a", "b", "c", "d", "e", "f"], blocks)


@pytest.mark.parametrize(
    ("names", "pair", "blocks", "fault"),
    [
        (["a"], None, [1.0], r"two or more agents of different names, not \[a\]"),
        (["a", "a"], None, [1.0], r"two or more agents of different names, not \[a, a\]"),
        (["a", "b"], ("a", "c"), [1.0], r"\('a', 'c'\) is no pair of \[a, b\]"),
        (["a", "b"], ("b", "b"), [1.0], r"\('b', 'b'\) is no pair of \[a, b\]"),
        (["a", "b"], ("a", "b"), [1.5], "block 0: 1.5 / 1.0 is not within"),
        (["a", "b"], ("a", "b"), [], "nothing to estimate in 0 blocks"),
    ],
)
def test_what_cannot_be_rated_is_refused(
    names: list[str], pair: tuple[str, str] | None, blocks: list[float], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        bradley_terry(names, {pair: blocks} if pair else {})


# Nash averaging

ROCK_PAPER_SCISSORS = np.array([[0.5, 0.2, 0.8], [0.8, 0.5, 0.2], [0.2, 0.8, 0.5]])


def with_copies(rates: Floats, copies: list[int]) -> Floats:
    """The win rates where agent i is there `copies[i]` times."""
    owner = np.repeat(np.arange(len(rates)), copies)
    return rates[np.ix_(owner, owner)]


def test_rock_paper_scissors_share_the_weight() -> None:
    weights, skills = nash_average(ROCK_PAPER_SCISSORS)
    assert weights == pytest.approx(np.full(3, THIRD), abs=1e-9)
    assert skills == pytest.approx(np.zeros(3), abs=1e-9)


def test_the_best_of_a_chain_has_all_the_weight() -> None:
    """Then skill is the win rate against the best, less 1/2."""
    strength = np.array([0.0, 0.3, 0.1, 0.2])
    weights, skills = nash_average(0.5 + strength[:, None] - strength)
    assert weights.tolist() == [0, 1, 0, 0]
    assert skills == pytest.approx([-0.3, 0, -0.2, -0.1])


@pytest.mark.parametrize("copies", [[3, 1, 1, 1], [1, 2, 1, 4]])
def test_copies_split_the_weight_and_change_no_skill(copies: list[int]) -> None:
    rates = np.pad(ROCK_PAPER_SCISSORS, (0, 1), constant_values=0.9)
    rates[3] = [0.1, 0.1, 0.1, 0.5]
    weights, skills = nash_average(rates)
    assert weights == pytest.approx([THIRD, THIRD, THIRD, 0], abs=1e-9)
    assert skills == pytest.approx([0, 0, 0, -0.4], abs=1e-9)
    split, same = nash_average(with_copies(rates, copies))
    assert split == pytest.approx(np.repeat(weights / copies, copies), abs=1e-6)
    assert same == pytest.approx(np.repeat(skills, copies), abs=1e-6)


def test_an_unequal_cycle_weighs_each_by_what_the_other_two_decide() -> None:
    """Agent a beats b by 0.1, b beats c by 0.2, c beats a by 0.3: weights are as 0.2 to 0.3 to 0.1."""
    rates = np.array([[0.5, 0.6, 0.2], [0.4, 0.5, 0.7], [0.8, 0.3, 0.5]])
    weights, _ = nash_average(rates)
    assert weights == pytest.approx([2 / 6, 3 / 6, 1 / 6], abs=1e-7)


def test_equals_share_the_weight_as_evenly_as_a_third_agent_lets_them() -> None:
    """Only c tells a from b: it gains 0.2 on a and loses 0.1 to b, so b needs twice the weight of a."""
    weights, skills = nash_average([[0.5, 0.5, 0.3], [0.5, 0.5, 0.6], [0.7, 0.4, 0.5]])
    assert weights == pytest.approx([THIRD, 2 * THIRD, 0], abs=1e-6)
    assert skills == pytest.approx([0, 0, 0], abs=1e-6)


def test_equals_share_the_weight_evenly_where_nothing_speaks_against_it() -> None:
    weights, _ = nash_average(np.full((5, 5), 0.5))
    assert weights == pytest.approx(np.full(5, 0.2))


def test_three_seats_count_both_line_ups() -> None:
    """One against two copies wins 0.5 for one order and 0.2 for the other: 0.15 above even on average."""
    weights, skills = nash_average([[THIRD, 0.5], [0.2, THIRD]])
    assert weights.tolist() == [1, 0]
    assert skills == pytest.approx([0, -0.15])


@pytest.mark.parametrize("agents", [2, 5, 9, 20])
def test_random_tables_have_the_equilibrium_that_a_linear_program_finds(agents: int) -> None:
    """Without ties it is the only one; nobody gains against it."""
    rng = np.random.default_rng(agents)
    for _ in range(5):
        rates = rng.random((agents, agents))
        payoffs = (rates - rates.T) / 2
        weights, skills = nash_average(rates)
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= 0
        assert skills.max() <= 1e-7
        plain = optimize.linprog(
            np.zeros(agents), A_ub=payoffs, b_ub=np.zeros(agents), A_eq=np.ones((1, agents)), b_eq=[1]
        )
        assert weights == pytest.approx(plain.x, abs=1e-5)


@pytest.mark.parametrize("rates", [[], [[0.5, 0.5]], [0.5], [[1.5]], [[math.nan, 1], [0, 0.5]]])
def test_what_is_no_table_of_win_rates_is_refused(rates: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="a square of numbers within"):
        nash_average(rates)
