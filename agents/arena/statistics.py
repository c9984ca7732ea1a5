"""What the scores of blocks say: means with intervals, a sequential test, ratings, and Nash averaging.

A *block* is one match seed, played once per rotation of the line-up over the seats, and its score is the mean of what
a side got in these matches: 1 for a win, 0 for a loss, an equal share of a match that nobody won. Matches of a block
meet the same deals and depend on each other, so the block is the unit of everything here. The *even* share is what
equal agents get: 1/2, but 1/3 where one plays two copies of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize, special
from scipy.sparse import csgraph

Floats = NDArray[np.float64]
Bounds = tuple[float, float]
Pair = tuple[str, str]

# In simulations of 5 to 1000 blocks the 95 % interval covered at worst 86 % with one of these, 93 % with two and 95 %
# with four. The worst were pairs that split nearly all blocks evenly.
_PRIOR_BLOCKS = 4
_UNSEEN = 1e-3  # blocks for which the lowest and highest score count while unseen, as in Stockfish's fishtest
_ELO = 400 / np.log(10)  # points for a factor e of the odds
_Z95 = 1.959963984540054  # two-sided 95 % of the normal distribution


@dataclass(frozen=True)
class Estimate:
    """A mean and its interval, whose limits are infinite for a single block without bounds."""

    mean: float
    low: float
    high: float


def estimate(blocks: ArrayLike, level: float = 0.95, bounds: Bounds | None = (0, 1)) -> Estimate:
    """Estimate the mean of a number per block, as `ratio_estimate` does with denominators of 1."""
    blocks = np.asarray(blocks, np.float64)
    return ratio_estimate(blocks, np.ones_like(blocks), level, bounds)


def ratio_estimate(
    numerators: ArrayLike, denominators: ArrayLike, level: float = 0.95, bounds: Bounds | None = None
) -> Estimate:
    """Estimate a ratio of two sums over blocks, such as points per round, where blocks differ in rounds.

    The variance is that of the ratio linearised around the estimate (Cochran, Sampling Techniques, 3rd ed., ch. 6).
    Without bounds the interval is Student's. With bounds it is that of Korn and Graubard (Survey Methodology 24,
    1998): Clopper and Pearson's for the number of independent trials that would vary as much.

    Args:
        numerators: [n], a sum per block.
        denominators: [n], at least 0.
        level: how often the interval is to hold the true ratio.
        bounds: the least and the greatest ratio that a block can have, or None.

    Raises:
        ValueError: the denominators sum to 0, or a block is not finite or not within the bounds.
    """
    numerators, denominators = _checked(numerators, denominators, bounds)
    n, total = len(numerators), denominators.sum()
    ratio = float(numerators.sum() / total)
    residuals = numerators - ratio * denominators
    if bounds is not None:
        low, span = bounds[0], bounds[1] - bounds[0]
        share = min(max((ratio - low) / span, 0.0), 1.0)
        limits = _clopper_pearson(share, _trials(share, *_moments(residuals / span, denominators)), level)
        return Estimate(ratio, low + span * limits[0], low + span * limits[1])
    if n == 1:
        return Estimate(ratio, -np.inf, np.inf)
    error = np.sqrt(n / (n - 1) * (residuals**2).sum()) / total
    half = float(special.stdtrit(n - 1, (1 + level) / 2) * error)
    return Estimate(ratio, ratio - half, ratio + half)


def _checked(numerators: ArrayLike, denominators: ArrayLike, bounds: Bounds | None) -> tuple[Floats, Floats]:
    numerators, denominators = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    if numerators.ndim != 1 or numerators.shape != denominators.shape:
        raise ValueError(f"expected two lists of one length, not shapes {numerators.shape} and {denominators.shape}")
    fine = np.isfinite(numerators) & np.isfinite(denominators) & (denominators >= 0)
    if bounds is not None:
        fine &= (bounds[0] * denominators <= numerators) & (numerators <= bounds[1] * denominators)
    for block in np.flatnonzero(~fine):
        raise ValueError(f"block {block}: {numerators[block]} / {denominators[block]} is not within {bounds}")
    if denominators.sum() == 0:
        raise ValueError(f"nothing to estimate in {len(numerators)} blocks: their denominators sum to 0")
    return numerators, denominators


class RunningMean:
    """The mean of block scores that come little by little; it takes no more time and memory with more of them.

    Attributes:
        blocks: how many scores there were.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._sum = self._squares = 0.0

    def add(self, block_scores: ArrayLike) -> None:
        """Take more scores, [n], within [0, 1]."""
        scores = np.asarray(block_scores, np.float64)
        self.blocks += len(scores)
        self._sum += float(scores.sum())
        self._squares += float((scores**2).sum())

    def estimate(self, level: float = 0.95) -> Estimate:
        """Return, but for rounding, what `estimate` does of all scores so far, of which there must be one."""
        mean = self._sum / self.blocks
        deviations = max(self._squares - self._sum * mean, 0.0)
        return Estimate(
            mean, *_clopper_pearson(mean, _trials(mean, self.blocks, deviations, self.blocks, self.blocks), level)
        )


def _moments(residuals: Floats, denominators: Floats) -> tuple[int, float, float, float]:
    """Return what `_trials` goes by."""
    return len(residuals), (residuals**2).sum(), denominators.sum(), (denominators**2).sum()


def _trials(share: float, n: int, deviations: float, total: float, squares: float) -> float:
    """How many independent trials, of which this share succeeds, would vary as much as the blocks do.

    Blocks of one size can vary at most as one trial each, if each is all or nothing. A few such blocks, half of them
    successes, are the prior, so that the number stays finite where no block differs from the others.

    Args:
        share: the ratio.
        n: how many blocks.
        deviations: sum of the squares of the blocks' residuals.
        total: sum of their denominators.
        squares: sum of the squares of these.
    """
    prior = _PRIOR_BLOCKS * squares / n / 4
    variance = n / max(n - 1, 1) * deviations
    design_effect = (variance + prior) / (share * (1 - share) * squares + prior)
    return float(total**2 / squares / design_effect)


def _clopper_pearson(share: float, trials: float, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (Biometrika 26, 1934), for numbers that need not be whole."""
    wins, losses, tail = share * trials, (1 - share) * trials, (1 - level) / 2
    low = special.betaincinv(wins, losses + 1, tail) if wins > 0 else 0.0
    high = special.betaincinv(wins + 1, losses, 1 - tail) if losses > 0 else 1.0
    return float(low), float(high)


def expected_score(elo: float, even: float) -> float:
    """Return the score of an agent `elo` points above the others: even odds, times ten for each 400 points."""
    return float(special.expit(special.logit(even) + elo / _ELO))


class SequentialTest:
    """Whether an agent is better, from block after block until that is clear.

    Wald's test with the generalised likelihood ratio of block scores: of all distributions with the mean that `elo1`
    gives, the likeliest, against the likeliest with that of `elo0`. Chess engines are so compared on pairs of games
    (M. Van den Bergh, "A practical introduction to the GSPRT"; Stockfish's fishtest).

    Args:
        even: the score between equals.
        elo0: the strength of an agent that is not better.
        elo1: the strength of one that is.
        alpha: how often, about, an agent of strength `elo0` may be called better.
        beta: how often, about, one of strength `elo1` may be called not better.

    Attributes:
        decision: "better", "not better", or None as long as it is open.
        blocks: how many blocks were looked at. After the decision, the last of them is the one that decided.
        llr: the logarithm of the likelihood ratio after these blocks.

    Raises:
        ValueError: the numbers make no test.
    """

    def __init__(self, even: float, elo0: float = 0, elo1: float = 20, alpha: float = 0.05, beta: float = 0.05) -> None:
        if not (0 < even < 1 and elo0 < elo1 and 0 < alpha < 0.5 and 0 < beta < 0.5):
            raise ValueError(f"no test has even={even}, elo0={elo0}, elo1={elo1}, alpha={alpha}, beta={beta}")
        self.decision: Literal["better", "not better"] | None = None
        self.blocks = 0
        self.llr = 0.0
        self._means = np.array([expected_score(elo0, even), expected_score(elo1, even)])
        self._limits = np.log(beta / (1 - alpha)), np.log((1 - beta) / alpha)
        self._tally: dict[float, float] = {0.0: 0.0, 1.0: 0.0}

    def add(self, block_scores: ArrayLike) -> None:
        """Look at these blocks, but at none after the one that decides: calls can be of any size.

        Args:
            block_scores: [n] or one, within [0, 1].

        Raises:
            ValueError: there is no score, or one is not within [0, 1].
        """
        scores, _ = _checked(np.atleast_1d(block_scores), np.ones(np.size(block_scores)), (0, 1))
        if self.decision is not None:
            return
        outcomes = np.unique([*self._tally, *scores])
        before = np.array([[self._tally.get(outcome, 0.0)] for outcome in outcomes])
        counts = before + np.cumsum(scores == outcomes[:, None], axis=1)
        loss0, loss1 = _losses_of_means(outcomes, counts, self._means)
        ratios = loss0 - loss1
        crossed = np.flatnonzero((ratios <= self._limits[0]) | (ratios >= self._limits[1]))
        last = int(crossed[0]) if len(crossed) else len(scores) - 1
        self._tally = dict(zip(outcomes.tolist(), counts[:, last].tolist(), strict=True))
        self.blocks += last + 1
        self.llr = float(ratios[last])
        if len(crossed):
            self.decision = "better" if self.llr > 0 else "not better"


def _losses_of_means(outcomes: Floats, counts: Floats, means: Floats) -> Floats:
    """Return float64[M, n], how much log-likelihood each of n samples loses by the demand for each of M means.

    The likeliest distribution gives outcome a its frequency over 1 + t (a - mean), where t makes the mean right
    (Owen, Biometrika 75, 1988). It is the zero of a falling function, found by halving.

    Args:
        outcomes: [K], from 0 to 1, ascending.
        counts: [K, n], how often a sample has each.
        means: [M], within (0, 1).
    """
    counts = np.maximum(counts, np.where((outcomes == 0) | (outcomes == 1), _UNSEEN, 0)[:, None])
    deviations = (outcomes - means[:, None])[:, :, None]
    low, high = -1 / deviations[:, -1:], -1 / deviations[:, :1]
    for _ in range(50):
        middle = (low + high) / 2
        above = (counts * deviations / (1 + middle * deviations)).sum(axis=1, keepdims=True) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray((counts * np.log1p((low + high) / 2 * deviations)).sum(axis=1))


@dataclass(frozen=True)
class Rating:
    """An agent's strength on the Elo scale, with its 95 % interval."""

    agent: str
    elo: float
    low: float
    high: float


def bradley_terry(names: Sequence[str], blocks: Mapping[Pair, ArrayLike], even: float = 0.5) -> list[Rating]:
    """Rate agents from the block scores of their pairs: mean 0, best first.

    The model of Bradley and Terry (Biometrika 39, 1952), for more than two with Luce's rule: an agent of strength s
    wins with probability s over the sum of the strengths at the table. So one against two copies has the even odds,
    1 to 2, times s_a / s_b, and for any table the log of the odds above even is the difference of two ratings.

    A pair counts as the independent trials that would vary as its blocks do. The likelihood carries the penalty of
    Firth (Biometrika 80, 1993), which takes out most of the bias of small samples and keeps the rating finite of an
    agent that won or lost everything.

    Args:
        names: at least two agents.
        blocks: for pairs (a, b), the block scores of a. With three seats (a, b) and (b, a) are two pairs, and both
            may be given.
        even: the score between equals.

    Raises:
        ValueError: names repeat, a pair is not of two of them, or pairs do not link them all: says the groups.
    """
    _check_linked(names, list(blocks))
    versus = np.zeros((len(blocks), len(names)))
    samples = np.zeros((2, len(blocks)))
    for row, ((a, b), scores) in enumerate(blocks.items()):
        versus[row, names.index(a)], versus[row, names.index(b)] = 1, -1
        scores, ones = _checked(scores, np.ones(np.shape(scores)), (0, 1))
        samples[:, row] = scores.mean(), _trials(scores.mean(), *_moments(scores - scores.mean(), ones))
    values = _ELO * _fit(versus, samples[0], samples[1], float(special.logit(even)))
    ratings = [Rating(name, *row) for name, row in zip(names, values.tolist(), strict=True)]
    return sorted(ratings, key=lambda rating: -rating.elo)


def _check_linked(names: Sequence[str], pairs: Sequence[Pair]) -> None:
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"a rating needs two or more agents of different names, not [{', '.join(names)}]")
    link = np.zeros((len(names), len(names)))
    for a, b in pairs:
        if a not in names or b not in names or a == b:
            raise ValueError(f"({a!r}, {b!r}) is no pair of [{', '.join(names)}]")
        link[names.index(a), names.index(b)] = 1
    count, group = csgraph.connected_components(link, directed=False)
    if count > 1:
        groups = (", ".join(np.array(names)[group == i]) for i in range(count))
        raise ValueError(f"no common scale: agents met only within the groups [{'], ['.join(groups)}]")


def _fit(versus: Floats, shares: Floats, trials: Floats, offset: float) -> Floats:
    """Logistic regression: float64[m, 3], strengths of mean 0 and the limits of their intervals, in log odds.

    Args:
        versus: [pairs, m], 1 for the one and -1 for the other agent.
        shares: [pairs], the share of the trials that the one won.
        trials: [pairs].
        offset: the log odds between equals.
    """
    basis = linalg.null_space(np.ones((1, versus.shape[1])))  # strengths of mean 0 are these times fewer numbers
    design = versus @ basis

    def information(x: Floats) -> Floats:
        p = special.expit(offset + design @ x)
        return np.asarray((design.T * (trials * p * (1 - p))) @ design)

    def loss(x: Floats) -> tuple[float, Floats]:
        logits, inside = offset + design @ x, information(x)
        p = special.expit(logits)
        likelihood = trials @ (shares * special.log_expit(logits) + (1 - shares) * special.log_expit(-logits))
        leverages = trials * p * (1 - p) * ((design @ np.linalg.inv(inside)) * design).sum(axis=1)
        slope = design.T @ (trials * (shares - p) + leverages * (0.5 - p))
        return float(-likelihood - np.linalg.slogdet(inside)[1] / 2), -slope

    best = optimize.minimize(
        loss, np.zeros(design.shape[1]), jac=True, hess=information, method="trust-exact", tol=1e-8
    ).x
    return np.column_stack([basis @ best, _profile(loss, best, information(best), basis)])


def _profile(loss: Callable[[Floats], tuple[float, Floats]], best: Floats, information: Floats, rows: Floats) -> Floats:
    """Return float64[m, 2], between which limits `rows` @ x can lie while the loss is not far above its least.

    This profile of the likelihood serves where the curvature at its top makes too short an interval, such as for an
    agent that won everything (Heinze and Schemper, Statistics in Medicine 21, 2002).
    """
    most = loss(best)[0] + _Z95**2 / 2
    root = np.linalg.cholesky(np.linalg.inv(information))  # x = best + root @ y: in y, the region is nearly a ball

    def room(y: Floats) -> Floats:
        return np.array([most - loss(best + root @ y)[0]])

    def slope(y: Floats) -> Floats:
        return np.asarray(-root.T @ loss(best + root @ y)[1])[None]

    def least(row: Floats) -> float:
        way = row / float(np.linalg.norm(row))

        def along(y: Floats) -> tuple[float, Floats]:
            return float(way @ y), way

        inside = optimize.NonlinearConstraint(room, 0, np.inf, jac=slope)
        return float(row @ optimize.minimize(along, -_Z95 * way, jac=True, method="SLSQP", constraints=inside).x)

    limits = np.array([(least(row), -least(-row)) for row in rows @ root])
    return np.asarray((rows @ best)[:, None] + limits)


def nash_average(win_rates: ArrayLike) -> tuple[Floats, Floats]:
    """Weigh agents so that neither copies of one nor easy victims count (Balduzzi et al., arXiv:1806.02643).

    In the game of choosing an agent, the payoff is the win probability above even. The weights are its equilibrium of
    greatest entropy, and skill is the payoff against it. The paper takes log odds as payoffs; probabilities stay
    finite where an agent won everything.

    Args:
        win_rates: [m, m], of the row's agent against the column's. Half the difference of two mirrored entries is the
            payoff, so with three seats both count. The diagonal does not matter.

    Returns:
        The weights [m], and the skills [m], none of which is above 0.

    Raises:
        ValueError: `win_rates` is no square of numbers within [0, 1].
    """
    rates = np.asarray(win_rates, np.float64)
    if rates.size == 0 or rates.shape != (len(rates),) * 2 or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"win rates must be a square of numbers within [0, 1], not {rates.tolist()}")
    payoffs = (rates - rates.T) / 2
    weights = _widest_equilibrium(payoffs / (np.abs(payoffs).max() or 1))
    return weights, payoffs @ weights


def _widest_equilibrium(payoffs: Floats) -> Floats:
    """Return float64[m], the equilibrium of greatest entropy of a symmetric zero-sum game.

    By duality (Boyd and Vandenberghe, Convex Optimization, ch. 5) it is the softmax of `payoffs` @ prices over those
    that have weight in some equilibrium, for the prices with the least log of the sum of exponentials: of any sign for
    those same agents, at least 0 for the others.
    """
    some = _support(payoffs)

    def loss(prices: Floats) -> tuple[float, Floats]:
        logits = payoffs[some] @ prices
        return float(special.logsumexp(logits)), payoffs[some].T @ special.softmax(logits)

    signs = optimize.Bounds(np.where(some, -np.inf, 0), np.inf)
    prices = optimize.minimize(loss, np.zeros(len(some)), jac=True, method="L-BFGS-B", bounds=signs, tol=1e-16).x
    weights = np.zeros(len(payoffs))
    weights[some] = special.softmax(payoffs[some] @ prices)
    return weights


def _support(payoffs: Floats) -> NDArray[np.bool_]:
    """Return bool[m], who has weight in some equilibrium: of any multiple of one, count each weight up to 1."""
    m, one = len(payoffs), np.eye(len(payoffs))
    result = optimize.linprog(
        np.repeat([0, -1], m),
        A_ub=np.block([[payoffs, 0 * one], [-one, one]]),
        b_ub=np.zeros(2 * m),
        bounds=[(0, None)] * m + [(0, 1)] * m,
    )
    return np.asarray(result.x)[m:] > 0.5
