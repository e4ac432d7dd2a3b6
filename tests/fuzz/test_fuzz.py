"""Three hundred damaged files, the same each time, and every one that ever did harm: `make fuzz N=10000` for more."""

import shutil
import sys
import warnings

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked, and limited by Linux")

COUNT = 300


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    import harness

    root = tmp_path_factory.mktemp("valid")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        harness.material.make(root)
        yield root, harness.digests(root, tmp_path_factory.mktemp("whole"))
    shutil.rmtree(root)


def test_no_damaged_file_does_more_than_be_refused(valid):
    import harness

    root, whole = valid
    todo = [*harness.known(), *harness.cases(root, COUNT, seed=0, verbs=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking, from Python 3.12 on
        outcomes = list(harness.run(todo, root, whole))
    assert [(case, outcome) for case, outcome in outcomes if outcome.kind not in harness.GOOD] == []
    assert len(outcomes) == len(todo)
    kinds = {outcome.kind for _, outcome in outcomes}
    assert {"refused", "read"} <= kinds, "cases that are all refused, or all read, test nothing"


def test_the_same_seed_is_the_same_damage(valid):
    import harness

    first, second = (list(harness.cases(valid[0], 50, seed=3)) for _ in range(2))
    assert first == second
    assert len({case.entry for case in first}) > 10
