"""Numbers of questions and seeds that a comparison needs."""

import math


def questions_for_lead(paired_sd: float, lead: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """Return the number of questions needed to detect a lead, by the power of the two-sided paired t-test.

    With n questions the test statistic has the noncentral t-distribution with n - 1 degrees of freedom and
    noncentrality √n · lead / sd (Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988).

    Args:
        paired_sd: Standard deviation over questions of the difference of two systems, >= 0.
        lead: The true lead to detect, > 0.
        power: Probability of detecting it, in (alpha, 1).
        alpha: Probability of detecting a lead if there is none, in (0, 1).

    Returns:
        The smallest sufficient number of questions, >= 2.

    Raises:
        ValueError: An argument is out of its range.

    >>> questions_for_lead(0.074, 0.02)
    110
    """
    if not (paired_sd >= 0 and lead > 0 and 0 < alpha < power < 1):
        raise ValueError(
            f"expected paired_sd >= 0, lead > 0 and 0 < alpha < power < 1, got paired_sd={paired_sd}, lead={lead}, "
            f"alpha={alpha}, power={power}"
        )
    least = most = 2
    while _paired_t_power(most, paired_sd, lead, alpha) < power:
        least, most = most + 1, 2 * most
    while least < most:
        middle = (least + most) // 2
        if _paired_t_power(middle, paired_sd, lead, alpha) < power:
            least = middle + 1
        else:
            most = middle
    return least


def _paired_t_power(questions: int, paired_sd: float, lead: float, alpha: float) -> float:
    """Return the power of the two-sided paired t-test for a number of questions."""
    from scipy.stats import f, ncf

    if not paired_sd:
        return 1.0
    # the square of t is F with one degree of freedom; SciPy's noncentral t is NaN for large leads on few questions
    critical = f.ppf(1 - alpha, 1, questions - 1)
    return float(ncf.sf(critical, 1, questions - 1, questions * (lead / paired_sd) ** 2))


def lead_beyond_seeds(seeds: int, seed_sd: float) -> float:
    """Return the smallest detectable lead between two trained systems with a number of seeds and unlimited questions.

    This is half the width of ``interval_over_questions_and_seeds`` from seeds alone, if both systems vary equally.

    Args:
        seeds: Number of seeds of each system, >= 2.
        seed_sd: Standard deviation over seeds of a system's mean, >= 0.

    >>> [round(lead_beyond_seeds(seeds, 0.02), 3) for seeds in (2, 3, 5, 8)]
    [0.086, 0.045, 0.029, 0.021]
    """
    from scipy.stats import t

    return float(t.ppf(0.975, 2 * (seeds - 1))) * seed_sd * math.sqrt(2 / seeds)
