"""The run folder between processes, and the commit that it records."""

import shutil
import subprocess
from pathlib import Path

from mixseg import folder
from mixseg.folder import RunFolder


def test_a_run_that_is_begun_again_at_this_moment_is_not_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "exists", lambda path: True)  # it was there just now
    assert RunFolder(tmp_path).finished is None


def git(where, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", "-C", str(where), *who, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_that_of_the_package_and_of_no_repository_above_it(tmp_path, monkeypatch):
    installed = tmp_path / "lib" / "folder.py"
    installed.parent.mkdir()
    shutil.copy(folder.__file__, installed)
    (tmp_path / ".gitignore").write_text("lib/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-qm", "somebody's own")
    monkeypatch.setattr(folder, "__file__", str(installed))
    assert folder._commit() is None
    git(tmp_path, "add", "-f", str(installed))
    git(tmp_path, "commit", "-qm", "a package in its own repository")
    assert folder._commit() == git(tmp_path, "rev-parse", "--short=12", "HEAD")
