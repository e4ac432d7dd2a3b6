"""Pictures of volumes have the proportions of what they show, and a montage names its slices."""

import numpy as np
import pytest

from fake_runs import write_run
from mixseg.inference.report_slices import lay_out
from mixseg.report.figures.montages import montages
from mixseg.report.figures.pictures import SMALLEST, Strip, around, gallery
from mixseg.report.run_report import write_report


def strip(shape, box, pixel):
    """A picture with a structure in ``box``, of pixels so large."""
    truth = np.zeros(shape, np.uint8)
    truth[box] = 1
    return Strip("a", truth, truth, {"top": truth}, pixel=pixel)


def test_what_is_shown_round_a_structure_is_square_in_mm():
    # 20 rows of 5 mm by 50 columns of 1 mm: 100 mm by 50 mm.
    one = strip((60, 400), (slice(20, 40), slice(100, 150)), pixel=(1.0, 5.0))
    rows, columns = around(one)
    height, width = 5.0 * (rows.stop - rows.start), 1.0 * (columns.stop - columns.start)
    assert height == pytest.approx(width, abs=5.0)
    assert height >= 100 * 1.5
    assert rows.start <= 20 <= 40 <= rows.stop
    assert columns.start <= 100 <= 150 <= columns.stop


def test_square_pixels_are_cut_as_before():
    rows, columns = around(strip((100, 100), (slice(50, 53), slice(50, 53)), pixel=(1.0, 1.0)))
    assert rows.stop - rows.start == columns.stop - columns.start == SMALLEST


@pytest.mark.parametrize("pixel", [(1.0, 1.0), (0.5, 3.0), (2.0, 1.0)])
def test_every_panel_is_drawn_with_the_proportions_of_its_pixels(pixel):
    figure = gallery([strip((40, 40), (slice(10, 30), slice(10, 30)), pixel)], ("background", "a"))
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 3
    assert all(axes.get_aspect() == pytest.approx(pixel[1] / pixel[0]) for axes in panels)


def test_a_montage_names_its_slices_and_has_the_proportions_of_its_pixels():
    truth = np.zeros((30, 30, 40), np.uint8)
    truth[8:22, 8:22, 4:35] = 1
    one = lay_out(truth, truth, truth, (1.0, 2.0, 1.0))
    figure = montages([("scan", one)], ("background", "a"))
    (axes,) = figure.axes
    assert [text.get_text().strip() for text in axes.texts] == [str(index) for index in one.indices]
    assert axes.get_aspect() == 2.0
    assert montages([], ("background", "a")) is None


def test_the_page_of_a_run_on_volumes_shows_planes_and_montages_and_that_of_slices_none(tmp_path):
    write_run(tmp_path / "deep", dims=3, classes=("background", "atrium"), scans=2)
    write_run(tmp_path / "flat", classes=("background", "atrium"), scans=2)
    deep, flat = (write_report(tmp_path / name).read_text(encoding="utf-8") for name in ("deep", "flat"))
    assert "from end to end of what is marked" in deep
    assert "from end to end of what is marked" not in flat
    assert deep.count("data:image/png") == flat.count("data:image/png") + 2, "one for the worst, one for the best"
