"""Do two measurements of the same things agree, beyond what their noise hides? Pure.

Noise makes labels look less alike than they are. Correlations are corrected by how far a label agrees with itself, on
two halves of its responses (Spearman, American Journal of Psychology 1904). Signs cannot be corrected like that: the
joint distribution of the true labels is estimated first, by maximum likelihood and without a shape given to it (Kiefer
and Wolfowitz, Annals of Mathematical Statistics 1956), and the signs are counted there.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

_STEP = 1 / 30  # of the grid of true labels, about
_ROUNDS = 200  # of the EM algorithm
_ENOUGH = 1e-6  # gain of a round in nats per label


class NoisyLabels(NamedTuple):
    """Labels of n things by one reader; all are numpy arrays.

    Attributes:
        values: ``(n,)`` labels, in [-1, 1].
        errors: ``(n,)`` their standard errors, >= 0; of these only the proportions count.
        halves: ``(K, 2, n)`` the labels on both halves of the responses, split at random K times.
    """

    values: Any
    errors: Any
    halves: Any

    def at(self, places: Any) -> "NoisyLabels":
        """Return the labels at some places."""
        return NoisyLabels(self.values[places], self.errors[places], self.halves[..., places])

    def centred(self, owner: Any) -> "NoisyLabels":
        """Return the labels less their mean over those with the same owner, such as the passages of a question."""
        import numpy as np

        sizes = np.bincount(owner)

        def less_mean(row: Any) -> Any:
            return row - (np.bincount(owner, weights=row) / sizes)[owner]

        halves = np.apply_along_axis(less_mean, -1, self.halves)
        return NoisyLabels(less_mean(self.values), self.errors, halves)

    def differences(self, pairs: Sequence[tuple[int, int]]) -> "NoisyLabels":
        """Return the differences of pairs of labels, given by their places, whose errors are independent."""
        import numpy as np

        first, other = np.array(pairs, dtype=int).reshape(-1, 2).T
        return NoisyLabels(
            self.values[first] - self.values[other],
            np.hypot(self.errors[first], self.errors[other]),
            self.halves[..., first] - self.halves[..., other],
        )

    @property
    def true_variance(self) -> float:
        """The variance of the true labels: the covariance of both halves, whose noise is independent."""
        first, other = self.halves[:, 0], self.halves[:, 1]
        return float((first * other).mean() - (first.mean(-1) * other.mean(-1)).mean())

    @property
    def reliability(self) -> float:
        """Share of the labels' variance that is not noise; NaN if all are equal."""
        variance = float(self.values.var())
        return self.true_variance / variance if variance else math.nan

    @property
    def noise(self) -> Any:
        """``(n,)`` standard deviations of the noise: the errors, scaled to what the halves differ by."""
        squared = float((self.errors**2).mean())
        found = float((self.values**2).mean() - (self.halves[:, 0] * self.halves[:, 1]).mean())
        return self.errors * (math.sqrt(max(found, 0.0) / squared) if squared else 0.0)


class Correlation(NamedTuple):
    """Pearson's r of two readers' labels, and of what the labels would be without noise.

    Attributes:
        observed: Of the labels, in [-1, 1]; NaN for equal ones.
        corrected: Of the true labels: the covariance of the labels over the root of both true variances. By chance it
            may lie beyond 1; NaN where a true variance is not above 0.
    """

    observed: float
    corrected: float


def correlation(one: NoisyLabels, other: NoisyLabels) -> Correlation:
    """Correlate two readers' labels of the same things, whose noise is independent (Spearman, 1904)."""
    import numpy as np

    covariance = float(np.mean((one.values - one.values.mean()) * (other.values - other.values.mean())))
    spread = float(one.values.std() * other.values.std())
    true_spread = max(one.true_variance, 0.0) * max(other.true_variance, 0.0)
    return Correlation(
        covariance / spread if spread else math.nan,
        covariance / math.sqrt(true_spread) if true_spread else math.nan,
    )


def pairs_within(owner: Sequence[int]) -> list[tuple[int, int]]:
    """Return the places of all pairs with the same owner; owners stand side by side.

    >>> pairs_within([0, 0, 0, 1])
    [(0, 1), (0, 2), (1, 2)]
    """
    groups = [[at for at, _ in group] for _, group in itertools.groupby(enumerate(owner), key=lambda row: row[1])]
    return [pair for group in groups for pair in itertools.combinations(group, 2)]


class Shares(NamedTuple):
    """Shares of things, in [0, 1], whose two labels have the same sign or not; they sum to 1.

    Attributes:
        same: Both labels are beyond the margin on the same side of 0.
        opposite: Both are beyond it on different sides.
        one_only: One of the two is beyond it.
        neither: None is.
    """

    same: float
    opposite: float
    one_only: float
    neither: float

    @property
    def agreement(self) -> float:
        """Share with the same sign, of those beyond the margin in both labels; NaN where there is none."""
        both = self.same + self.opposite
        return self.same / both if both else math.nan


def sign_shares(one: Any, other: Any, margin: float, weights: Any = None) -> Shares:
    """Return how far the signs of labels agree.

    Args:
        one: ``(n,)`` labels.
        other: ``(n,)`` labels of the same things.
        margin: Distance from 0 up to which a label has no sign, > 0.
        weights: ``(n,)`` what each thing counts; ``None`` for the same.
    """
    import numpy as np

    product = _signs(one, margin) * _signs(other, margin)
    either = (_signs(one, margin) != 0) | (_signs(other, margin) != 0)
    weights = np.ones(len(product)) if weights is None else np.asarray(weights)
    kinds = (product > 0, product < 0, (product == 0) & either, ~either)
    return Shares(*(float(weights[kind].sum() / weights.sum()) for kind in kinds))


class TrueSigns:
    """Estimates how far the signs of two readers' true labels agree, from labels with normal noise.

    The joint distribution of the true labels is estimated on a grid, by the EM algorithm (Laird, Journal of the
    American Statistical Association 1978).

    Args:
        one: Labels of the first reader.
        other: Labels of the other reader, of the same things.
        margin: Distance from 0 up to which a label has no sign, in [0.01, 0.5].
    """

    def __init__(self, one: NoisyLabels, other: NoisyLabels, margin: float) -> None:
        self._margin, self._grid = margin, label_grid(margin)
        self._likelihoods = [self._likelihood(labels.values, labels.noise) for labels in (one, other)]

    def shares(self, counts: Any = None) -> Shares:
        """Return the shares of true labels.

        Their ``agreement`` is well known. Which of the labels without a sign lie within the margin is blurred where
        the noise is greater than it.

        Args:
            counts: ``(n,)`` how often each thing counts; ``None`` for once.
        """
        import numpy as np

        joint = self._joint_distribution(counts)
        points = len(self._grid)
        return sign_shares(np.repeat(self._grid, points), np.tile(self._grid, points), self._margin, joint.ravel())

    def _likelihood(self, values: Any, noise: Any) -> Any:
        """Return ``(n, G)``: how likely each label is, up to a factor, by the true label."""
        import numpy as np

        noise = np.maximum(noise, (self._grid[1] - self._grid[0]) / 2)[:, None]  # the grid tells nothing finer
        squared = ((values[:, None] - self._grid) / noise) ** 2
        return np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))

    def _joint_distribution(self, counts: Any) -> Any:
        """Return ``(G, G)`` probabilities of the true labels."""
        import numpy as np

        one, other = self._likelihoods
        if counts is None:
            counts = np.ones(len(one))
        one, other, counts = one[counts > 0], other[counts > 0], counts[counts > 0]
        joint = np.full((len(self._grid), len(self._grid)), len(self._grid) ** -2.0)
        before = -math.inf
        for _ in range(_ROUNDS):
            likelihood = ((one @ joint) * other).sum(axis=1)
            now = float(counts @ np.log(likelihood) / counts.sum())
            if now - before < _ENOUGH:
                break
            before = now
            joint = joint * (one.T @ ((counts / likelihood)[:, None] * other)) / counts.sum()
        return joint


def label_grid(margin: float) -> Any:
    """Return the points of a grid of labels from about -1 to 1, with the margins halfway between two of them.

    >>> label_grid(0.25)[:4].round(3).tolist()
    [-1.0, -0.967, -0.933, -0.9]
    """
    import numpy as np

    between = max(round((2 * margin / _STEP - 1) / 2), 0)  # points from 0 to the margin, without 0
    step = 2 * margin / (2 * between + 1)
    most = math.ceil(1 / step - 1e-9)
    return np.arange(-most, most + 1) * step


def _signs(labels: Any, margin: float) -> Any:
    import numpy as np

    return np.where(np.asarray(labels) > margin, 1, np.where(np.asarray(labels) < -margin, -1, 0))
