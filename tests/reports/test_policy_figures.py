"""Figures of searches: names and markers remain readable if points coincide or are at the edge."""

import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg

from seper_reward.baselines import workflows as drawing
from seper_reward.baselines.workflows import plot_tradeoff

# in a small run, rules coincide
RULES = {"never_search": (0.0, 0.0), "always_search": (1.0, 1.0), "threshold_entropy": (1.0, 1.0)}


def test_plot_tradeoff_is_readable_if_points_coincide(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(drawing, "save_figure", lambda figure, path: figures.append(figure))
    plot_tradeoff(RULES, tmp_path / "results.svg")
    FigureCanvasAgg(figures[0]).draw()
    (axes,) = figures[0].axes
    assert not axes.texts  # names next to points would overlap
    texts = axes.get_legend().get_texts()
    assert {text.get_text() for text in texts} == {"never search", "always search", "threshold entropy"}
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert not any(line.get_clip_on() for line in axes.lines)  # markers at the edge are whole
    assert len({(line.get_marker(), line.get_markersize()) for line in axes.lines}) == len(axes.lines)
