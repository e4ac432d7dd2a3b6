"""Which code made a run: the commit that it records, and the hash of its sources."""

import subprocess

import pytest

from mixseg.runs import provenance


def git(where, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", "-C", str(where), *who, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in a repository, with one commit that holds it, and one before that does not."""
    package = tmp_path / "src" / "mixseg"
    (package / "runs").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "runs" / "a.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("src/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-qm", "somebody's own")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    monkeypatch.delenv(provenance.COMMIT_VARIABLE, raising=False)
    return package


def test_the_commit_is_that_of_the_package_and_of_no_repository_above_it(package, monkeypatch):
    assert provenance.commit() is None
    root = package.parents[1]
    git(root, "add", "-f", "src")
    git(root, "commit", "-qm", "a package in its own repository")
    assert provenance.commit() == git(root, "rev-parse", "--short=12", "HEAD")
    (package / "runs" / "a.py").write_text("x = 2\n")
    assert provenance.commit() == git(root, "rev-parse", "--short=12", "HEAD") + "-dirty"
    monkeypatch.setenv(provenance.COMMIT_VARIABLE, "abc")
    assert provenance.commit() == "abc", "a copy lies in any repository"


def test_the_hash_of_the_sources_is_that_of_their_commit_until_they_change(package):
    root = package.parents[1]
    git(root, "add", "-f", "src")
    git(root, "commit", "-qm", "a package in its own repository")
    assert provenance.source_hash() == provenance.source_hash_of("HEAD", root)
    (package / "data.json").write_text("{}")
    assert provenance.source_hash() == provenance.source_hash_of("HEAD", root), "modules alone"
    (package / "runs" / "a.py").rename(package / "runs" / "b.py")
    assert provenance.source_hash() != provenance.source_hash_of("HEAD", root)
    with pytest.raises(subprocess.CalledProcessError):
        provenance.source_hash_of("0" * 40, root)
