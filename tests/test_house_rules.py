"""Rules that no single module can keep alone: names, layers, what may be imported where, what may be unpickled."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mixseg.data.augment import AUGMENTATIONS
from mixseg.datasets import DATASETS
from mixseg.datasets.partial_labels import GENERATORS
from mixseg.methods import METHODS
from mixseg.methods.losses import DIVERGENCES
from mixseg.networks import NETWORKS
from mixseg.runs.presets import PRESETS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "mixseg"

# The names that configs, run folders and tables are written with: a change breaks what users have.
NAMES = {
    "methods": (
        METHODS,
        "lower-bound single single-ent decoupled kl kl-ent mutual upper-bound-set upper-bound "
        "ua-mt glmi ssco proposals",
    ),
    "divergences": (DIVERGENCES, "kl reverse-kl bhattacharyya alpha-2 alpha-3 alpha-5"),
    "generators": (GENERATORS, "erosion-3x3 erosion-10x10 scribbles scribbles-border points boxes slices"),
    "datasets": (DATASETS, "acdc la nnunet h5 png phantom own"),
    "networks": (NETWORKS, "unet vnet"),
    "augmentations": (AUGMENTATIONS, "none paper-3d strong any-contrast"),
    "presets": (PRESETS, "paper strong quick"),
}


@pytest.mark.parametrize("kind", list(NAMES))
def test_the_dictionaries_have_the_names_that_files_are_written_with(kind):
    rows, names = NAMES[kind]
    assert set(rows) == set(names.split())
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in rows), "kebab-case"


@pytest.mark.parametrize("rows", [METHODS, DATASETS, NETWORKS], ids=["methods", "datasets", "networks"])
def test_every_row_says_in_a_line_what_it_is(rows):
    for name, row in rows.items():
        assert row.about, name
        assert "\n" not in row.about, name


BLOCKED = ("nibabel", "SimpleITK", "pydicom", "tyro", "rich", "matplotlib", "skimage", "h5py", "monai", "pytest")

BARE_NODE = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import runpy
sys.argv = ["mixseg.training", "--help"]
try:
    runpy.run_module("mixseg.training", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
import mixseg.training.train
loaded = sorted({{name.split(".")[0] for name in sys.modules}} & set({BLOCKED}))
assert not loaded, loaded
"""


def test_a_run_starts_on_a_node_with_nothing_but_torch_numpy_scipy_and_fabric():
    # In one interpreter: the help, then the import that a script would do.
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", BARE_NODE],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--data" in done.stdout
    assert "--split" in done.stdout


def sources():
    return [(path, ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


def classes(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def test_nothing_is_ever_unpickled():
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "joblib", "dill", "shelve", "marshal"} & {n.split(".")[0] for n in names}, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                if called == "torch.load":
                    assert given.get("weights_only") == "True", f"{path}:{node.lineno}"
                if called in ("np.load", "numpy.load"):
                    assert given.get("allow_pickle") == "False", f"{path}:{node.lineno}"
                assert called not in ("torch.jit.load", "torch.package.PackageImporter"), path


def test_no_module_is_a_drawer_for_odds_and_ends():
    drawers = {"utils", "util", "common", "helpers", "helper", "misc", "tools"}
    assert not [path for path, _ in sources() if path.stem in drawers or path.parent.name in drawers]


def test_no_function_outgrows_a_screen():
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 70, f"{path}: {node.name}"


def test_users_see_one_kind_of_error():
    """Every ``raise`` of a bare built-in that a user could cause is a sentence instead; asserts are for ourselves."""
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                assert ast.unparse(node.exc.func) not in ("Exception", "RuntimeError"), f"{path}:{node.lineno}"


def test_every_error_has_a_code():
    """Literal and in kebab-case, so that a program can tell errors apart and the page of messages lists them."""
    bases = {node.name: {ast.unparse(base) for base in node.bases} for _, tree in sources() for node in classes(tree)}
    errors = {"MixsegError"}
    while more := {name for name, of in bases.items() if of & errors} - errors:
        errors |= more
    assert {"UsageError", "SomeFailedError", "BusyError"} <= errors
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in errors:
                code = node.args[1].value if len(node.args) == 2 and isinstance(node.args[1], ast.Constant) else ""
                assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", str(code)), f"{path}:{node.lineno} {code!r}"


def test_modules_import_from_lower_layers_only():
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed: pip install -e '.[dev]'")
    done = subprocess.run([str(command)], capture_output=True, text=True, timeout=100, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
