"""Measurements in the form that `cargo xtask bench report` reads."""

import statistics


def spread(figures):
    """The median of some rounds, with minimum and maximum."""
    return {"median": statistics.median(figures), "least": min(figures), "greatest": max(figures)}


def ratios(ours, theirs):
    """The ratio of each round."""
    return [one / other for one, other in zip(ours, theirs)]


def scenario(name, about, rounds, contenders, targets):
    """One table: of each contender its label and named figures; of each target its text, figures, and least median or none."""
    return {
        "scenario": name,
        "about": about,
        "rounds": rounds,
        "contenders": [
            {"label": label, "figures": [[figure, spread(rates)] for figure, rates in figures]} for label, figures in contenders
        ],
        "verdicts": [
            {
                "what": what,
                "figure": spread(rates),
                "bound": "none" if goal is None else {"at_least": goal},
                "is_met": goal is not None and statistics.median(rates) >= goal,
            }
            for what, rates, goal in targets
        ],
        "failures": [],
    }
