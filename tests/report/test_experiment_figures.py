"""Figures draw the data of the runs: their lines, panels and words are checked, not their pixels."""

import dataclasses

import numpy as np
import pytest
import torch

from found_runs import SIDE, cell, disc, run_of, write_experiment, write_pictures, write_run
from mixseg.datasets.partial_labels import GENERATORS
from mixseg.experiments.paper import EXPERIMENTS
from mixseg.experiments.plan import run_path
from mixseg.methods.losses import entropy, min_entropy
from mixseg.report.experiment.figures import FIGURES, confidence, failures
from mixseg.report.experiment.figures.failures import Proposed
from mixseg.report.experiment.results import read_results
from mixseg.report.figures.style import MARKERS, line

STEPS = (25, 50, 75, 100)


def drawn(kind, folder):
    """The only figure of a kind that the experiment allows."""
    (figure,) = FIGURES[kind].draw(read_results(folder))
    return figure


def lines(axes):
    """The named curves of a panel."""
    named = {drawn.get_label(): drawn for drawn in axes.lines if not drawn.get_label().startswith("_")}
    return {name: (np.asarray(of.get_xdata()), np.asarray(of.get_ydata())) for name, of in named.items()}


def log(scores=None, terms=None):
    """Entries with a validation score, and with terms of the loss."""
    return [
        {
            "step": step,
            "loss": 1.0,
            "terms": {name: values[number] for name, values in (terms or {}).items()},
            **({"dsc": {"bottom": {"LV": scores[number]}}, "score": scores[number]} if scores else {}),
        }
        for number, step in enumerate(STEPS)
    ]


def test_the_curves_of_the_entropies_are_those_of_the_losses_and_their_gradients():
    figure = FIGURES["confidence"].draw(None)[0].figure
    values, slopes = (lines(axes) for axes in figure.axes[:2])
    for name, loss in (("entropy", entropy), ("min-entropy", min_entropy)):
        logit, slope = slopes[name]
        z = torch.tensor(logit, dtype=torch.float64, requires_grad=True)
        loss(torch.stack([z, torch.zeros_like(z)])[None]).sum().backward()
        away = logit != 0  # there the min-entropy jumps
        assert slope[away] == pytest.approx(z.grad.numpy()[away], abs=1e-12)
        p, value = values[name]
        inner = (p > 0) & (p < 1)
        logits = torch.tensor(np.log(np.stack([p, 1 - p])[:, inner]))
        assert value[inner] == pytest.approx(loss(logits[None])[0].numpy(), abs=1e-12)
    assert np.isnan(slopes["min-entropy"][1][slopes["min-entropy"][0] == 0]).all(), "no line is drawn over the jump"
    assert confidence.entropy(np.array([0.0, 1.0])) == pytest.approx([0, 0])


def test_the_terms_are_the_unweighted_ones_of_the_log_over_seeds_and_their_ratio(tmp_path):
    ours = cell("kl-ent", ("bottom",), seeds=(0, 1))
    folder = write_experiment(tmp_path, [ours])
    for seed, factor in ((0, 1.0), (1, 3.0)):
        terms = {"distill": [factor * value for value in (4e-3, 2e-3, 1e-3, 1e-3)], "entropy": [0.4, 0.4, 0.3, 0.2]}
        write_run(run_of(tmp_path, ours, seed), {"bottom": {"a": 0.5}}, log=log(terms=terms), seed=seed)
    found = drawn("terms", folder)
    both, ratio = found.figure.axes
    assert both.get_yscale() == ratio.get_yscale() == "log"
    for steps, _ in lines(both).values():
        assert steps == pytest.approx(STEPS)
    assert lines(both)["divergence from the teacher"][1] == pytest.approx([8e-3, 4e-3, 2e-3, 2e-3])
    assert lines(both)["entropy of the student"][1] == pytest.approx([0.4, 0.4, 0.3, 0.2])
    assert lines(ratio)["entropy / divergence"][1][-1] == pytest.approx((0.2 / 1e-3 + 0.2 / 3e-3) / 2)
    band = both.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((1e-3, 12e-3)), "from the lowest to the highest seed"
    assert "a factor of 100" in found.caption, "of the means over the last tenth: 0.2 to 2e-3"


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (
            "pseudo-labels",
            {
                "proposals-kl": ("proposals of kl", {"method": "proposals", "proposals_from": "kl"}),
                "min-entropy": (
                    "kl-ent with the min-entropy (pseudo-labels as a loss)",
                    {"confidence": "min-entropy"},
                ),
                "kl-ent": ("kl-ent (entropy)", {}),
            },
        ),
        ("divergences", {"kl": ("kl", {}), "alpha-2": ("alpha-2", {"divergence": "alpha-2"})}),
    ],
)
def test_learning_curves_are_the_mean_of_the_seeds_validation_scores(tmp_path, kind, rows):
    cells = {label: cell(label, ("bottom",), seeds=(0, 1)) for label in rows}
    folder = write_experiment(tmp_path, list(cells.values()))
    for number, (label, (_, changes)) in enumerate(rows.items()):
        facts = {"proposals": {"methods": ["kl"]}} if "proposals_from" in changes else {}
        for seed in (0, 1):
            scores = [0.1 * number + 0.2 * seed + 0.1 * look for look in range(4)]
            scores[1] = None if number == 1 and seed == 1 else scores[1]
            write_run(run_of(tmp_path, cells[label], seed), {"bottom": {"a": 0.5}}, log=log(scores), facts=facts,
                      **changes, seed=seed)  # fmt: skip
    (axes,) = drawn(kind, folder).figure.axes
    assert list(lines(axes)) == [name for name, _ in rows.values()]
    for number, (steps, values) in enumerate(lines(axes).values()):
        assert list(steps) == list(STEPS)
        expected = [10 * number + 10 + 10 * look for look in range(4)]
        gap = {1} if number == 1 else set()  # what is no number is a gap
        assert [None if np.isnan(value) else round(value, 6) for value in values] == [
            None if look in gap else pytest.approx(value) for look, value in enumerate(expected)
        ]
    assert len({(line.get_linestyle(), line.get_marker()) for line in axes.lines}) == len(rows), "told apart in grey"


def test_a_sweep_shows_each_setting_its_spread_and_the_papers_values(tmp_path):
    weights = ("0.1", "1", "10", "50")
    cells = [
        cell(weight, ("bottom",), column=column, seeds=(0, 1), x=float(weight))
        for column in ("set-3", "set-5")
        for weight in weights
    ]
    axis = "weight of the distillation term"
    folder = write_experiment(tmp_path, cells, experiment="kl-ent-distill-weight", varies="weight", axis=axis)
    for number, each in enumerate(cells):
        for seed in (0, 1):
            scores = {"bottom": {"a": 0.1 * number + 0.1 * seed}}
            write_run(run_path(folder, each.runs[seed]), scores, hd95={"bottom": {"a": float(number)}}, seed=seed)
    dsc, hd95 = drawn("sweep", folder).figure.axes
    assert list(lines(dsc)) == ["Set-3", "paper, Set-3", "Set-5", "paper, Set-5"]
    assert lines(dsc)["Set-5"] == (pytest.approx([0.1, 1, 10, 50]), pytest.approx([45, 55, 65, 75]))
    assert lines(dsc)["paper, Set-3"][1] == pytest.approx([66.36, 71.31, 85.87, 86.94])
    assert lines(hd95)["Set-3"][1] == pytest.approx([0, 1, 2, 3])
    bars = [of.get_segments()[0][:, 1] for of in dsc.collections]
    assert bars[0] == pytest.approx([5 - 50**0.5, 5 + 50**0.5]), "the sd of 0 and 10"
    assert dsc.get_xscale() == "log"
    assert dsc.get_xlabel() == axis
    assert (dsc.get_ylabel(), hd95.get_ylabel()) == ("DSC (%)", "HD95 (voxels)")


def test_rounds_have_a_curve_for_each_first_proposer_and_stop_where_runs_are_missing(tmp_path):
    cells = [cell(f"{start}, round {x}", series=start, x=float(x)) for start in ("lower-bound", "kl") for x in range(3)]
    folder = write_experiment(tmp_path, cells, experiment="self-training", axis="rounds")
    for number, each in enumerate(cells[:-1]):
        write_run(run_path(folder, each.runs[0]), {"top": {"a": 0.1 * number}})
    dsc, _ = drawn("sweep", folder).figure.axes
    assert lines(dsc)["lower-bound"] == (pytest.approx([0, 1, 2]), pytest.approx([0, 10, 20]))
    assert lines(dsc)["kl"] == (pytest.approx([0, 1]), pytest.approx([30, 40]))
    assert dsc.get_xscale() == "linear"


def test_a_weight_of_zero_has_its_place_on_a_logarithmic_axis(tmp_path):
    cells = [cell(str(x), x=x) for x in (0.0, 0.1, 1.0, 10.0)]
    folder = write_experiment(tmp_path, cells, experiment="single-entropy-weight", axis="weight of the entropy")
    for each in cells:
        write_run(run_path(folder, each.runs[0]), {"top": {"a": 0.5}})
    axes = drawn("sweep", folder).figure.axes[0]
    assert axes.get_xscale() == "symlog"
    assert list(axes.get_xticks()) == [0.0, 0.1, 1.0, 10.0]


def test_the_budget_is_drawn_against_voxels_and_strokes(tmp_path):
    budgets = {("points", 1): (10, 5), ("points", 2): (20, 10), ("scribbles", 1): (400, 6)}
    cells = [
        cell(f"{kind}, {ratio}", ("bottom",), series=kind, budget={"scans": 1, "voxels": voxels, "strokes": strokes})
        for (kind, ratio), (voxels, strokes) in budgets.items()
    ]
    folder = write_experiment(tmp_path, cells, experiment="annotation-budget")
    for number, each in enumerate(cells):
        write_run(run_path(folder, each.runs[0]), {"bottom": {"a": 0.5 + 0.1 * number}})
    voxels, strokes = drawn("budget", folder).figure.axes
    assert lines(voxels)["points"] == (pytest.approx([10, 20]), pytest.approx([50, 60]))
    assert lines(strokes)["points"][0] == pytest.approx([5, 10])
    assert lines(strokes)["scribbles"] == (pytest.approx([6]), pytest.approx([70]))


@pytest.fixture
def pictured(tmp_path):
    """kl, kl-ent and the upper bound, which mark discs of different size on six scans; kl is the least sure."""
    rows = {"kl": ("bottom", 4, 0.6), "kl-ent": ("bottom", 6, 0.95), "upper-bound-set": ("top", 8, 1.0)}
    cells = {label: cell(label, (output,)) for label, (output, _, _) in rows.items()}
    folder = write_experiment(tmp_path, list(cells.values()))
    scans = {}
    for label, (output, radius, sure) in rows.items():
        run = run_of(tmp_path, cells[label])
        names = [f"p{number}" for number in range(6)]
        write_run(run, {output: dict(zip(names, np.linspace(0.1, 0.6, 6), strict=True))}, method=label)
        scans[label] = write_pictures(run, {output: dict.fromkeys(names, radius)}, sure=sure)
    return folder, scans


def titles(figure, columns):
    return [axes.get_title() for axes in figure.axes[:columns]]


def test_qualitative_rows_show_image_truth_and_the_answer_of_each_method_with_the_scans_dsc(pictured):
    folder, scans = pictured
    found = drawn("qualitative", folder)
    panels = found.figure.axes
    assert found.name == "qualitative-set-3"
    assert titles(found.figure, 5) == ["image", "truth", "kl", "kl-ent", "upper-bound-set"]
    assert [axes.get_ylabel().splitlines()[0] for axes in panels[::5][:3]] == ["p1", "p3", "p5"], "spread by name"
    assert [axes.get_xlabel() for axes in panels[:5]] == ["", "", "DSC 20.0 %", "DSC 20.0 %", "DSC 20.0 %"]
    shown = np.asarray(panels[0].images[0].get_array())
    whole = next(scan for scan in scans["kl"] if scan.name == "p1").image[0, 0].T
    assert shown.shape[0] < SIDE
    corner = (SIDE - shown.shape[0]) // 2
    assert np.array_equal(shown, whole[corner : corner + len(shown), corner : corner + len(shown)])


def test_every_method_is_shown_in_as_many_figures_as_it_takes(tmp_path):
    cells = [cell(f"row {number}") for number in range(11)]
    folder = write_experiment(tmp_path, cells)
    for each in cells:
        write_run(run_of(tmp_path, each), {"top": {"a": 0.5}}, method="single")
        write_pictures(run_of(tmp_path, each), {"top": {"a": 6}})
    first, second = FIGURES["qualitative"].draw(read_results(folder))
    assert (first.name, second.name) == ("qualitative-set-3", "qualitative-set-3-2")
    assert (first.title[-8:], second.title[-8:]) == ("(1 of 2)", "(2 of 2)")
    shown = [*titles(first.figure, 7)[2:], *titles(second.figure, 8)[2:]]
    assert [title.replace("\n", " ") for title in shown] == [each.row for each in cells]


def extent(axes):
    """Largest distance of the coloured outline of a panel, in pixels: how large a disc it draws."""
    path = axes.collections[-1].get_paths()[0].vertices
    return float(np.ptp(path[:, 0]))


def test_outlines_are_those_of_each_methods_own_answer(pictured):
    kl, kl_ent, upper = drawn("qualitative", pictured[0]).figure.axes[2:5]
    assert [round((extent(axes) - 0.7) / 2) for axes in (kl, kl_ent, upper)] == [4, 6, 8]


def test_the_student_stands_beside_the_upper_bound(pictured):
    found = drawn("upper-bound", pictured[0])
    assert titles(found.figure, 4) == ["image", "truth", "student of kl-ent", "upper bound of the set"]


def test_probability_maps_hold_the_probabilities_and_the_share_that_is_undecided(pictured):
    figure = drawn("probabilities", pictured[0]).figure
    assert titles(figure, 4) == ["image", "truth", "kl", "kl-ent"]
    kl, kl_ent = (np.asarray(axes.images[0].get_array()) for axes in figure.axes[2:4])
    assert np.unique(kl) == pytest.approx([0, 153 / 255])
    assert np.unique(kl_ent) == pytest.approx([0, 242 / 255])
    share = disc((24, 24), 4)[0].mean()
    assert [axes.get_xlabel() for axes in figure.axes[2:4]] == [f"{100 * share:.1f} % undecided", "0.0 % undecided"]


def test_a_method_that_floods_the_image_is_tinted_and_does_not_shrink_the_others(tmp_path):
    rows = {"single": 6, "decoupled": 40}
    cells = {label: cell(label) for label in rows}
    folder = write_experiment(tmp_path, list(cells.values()))
    for label, radius in rows.items():
        run = run_of(tmp_path, cells[label])
        write_run(run, {"top": {"a": 0.5}}, method="single")
        write_pictures(run, {"top": {"a": radius}})
    single, flood = drawn("qualitative", folder).figure.axes[2:4]
    assert len(single.images) == 1
    assert len(flood.images) == 2
    assert np.asarray(flood.images[0].get_array()).shape[0] < SIDE


def test_volumes_are_shown_in_three_planes(tmp_path):
    cells = [cell(label) for label in ("single", "kl")]
    folder = write_experiment(tmp_path, cells)
    for each in cells:
        run = run_of(tmp_path, each)
        write_run(run, {"top": {"a": 0.5, "b": 0.4}}, method="single", dims=3)
        write_pictures(run, {"top": {"a": 6, "b": 6}}, dims=3)
    names = [axes.get_ylabel() for axes in drawn("qualitative", folder).figure.axes if axes.get_ylabel()]
    assert [name.split("\n")[1].split()[0] for name in names] == ["IJ", "IK", "JK"]


@dataclasses.dataclass
class Case:
    id: str
    patient: str
    has_full: bool = True
    spacing: tuple = (1.0, 1.0, 1.0)
    spacing_known: bool = False
    annotated: tuple | None = None


class Shelf:
    """A prepared folder of five scans of four patients, each a disc; nobody knows the truth of the last two."""

    dims, classes = 2, ("background", "LV")

    def __init__(self):
        names = (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"))
        self.cases = {name: Case(name, patient, name != "c1") for name, patient in names}
        self.cases["d1"] = Case("d1", "d", annotated=("RV",))

    def __getitem__(self, name):
        return self.cases[name]

    def full(self, case):
        return disc((24, 24), 8)

    def image(self, case):
        return np.zeros((4, 1, SIDE, SIDE), np.uint8)


def test_failures_are_the_worst_first_proposals_one_of_each_patient_through_all_rounds():
    radii = [{"a1": 5, "a2": 3, "b1": 7, "c1": 0, "d1": 1}, {"a1": 8, "a2": 4, "b1": 6, "c1": 0, "d1": 1}]
    rounds = [
        Proposed(f"round {number}", {name: disc((24, 24), radius) for name, radius in of.items()})
        for number, of in enumerate(radii, start=1)
    ]
    rounds[1].masks["a2"][:] = 0
    rounds[0].masks["a2"][2] = 0  # most errors in this slice
    strips = failures.failures(Shelf(), rounds)
    assert [strip.name for strip in strips] == ["a2\nslice 2", "b1\nslice 0"]
    truth, first = disc((24, 24), 8), rounds[0].masks["a2"]
    dsc = 2 * (first * truth).sum() / (first.sum() + truth.sum())
    assert strips[0].notes == {"truth": "", "round 1": f"DSC {100 * dsc:.1f} %", "round 2": "nothing is proposed"}
    assert np.array_equal(strips[0].labels["round 1"], first[2].T)


def test_as_many_curves_as_there_are_kinds_of_partial_labels_are_told_apart_in_grey():
    looks = {(line(number)["linestyle"], MARKERS[number % len(MARKERS)]) for number in range(len(GENERATORS))}
    assert len(looks) == len(GENERATORS)


def test_every_figure_belongs_to_experiments_that_there_are_and_needs_runs(tmp_path):
    folder = write_experiment(tmp_path, [cell("kl-ent", ("bottom",), x=1.0), cell("kl", ("bottom",), x=2.0)])
    for name, row in FIGURES.items():
        assert set(row.made_by) <= set(EXPERIMENTS)
        assert bool(row.draw(read_results(folder))) == (name == "confidence")
