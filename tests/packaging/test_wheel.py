"""What is shipped carries the scripts, and works from anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.processes import ROOT

SCRIPTS = {path.relative_to(ROOT / "lua").as_posix() for path in (ROOT / "lua").rglob("*.lua")}
LOAD = "from coordinator.store.scripts import load_all; print(sorted(load_all()))"
WHERE = "import coordinator, pathlib; print(pathlib.Path(coordinator.__file__).parents[1])"
SHIPPED = ("coordinator", "workers", "lua", "pyproject.toml", "README.md", "LICENSE", "Makefile", "compose.yaml")


def run(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    env = {**os.environ, "PYTHONPATH": str(path)} if path else dict(os.environ)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_built_wheel_loads_every_script(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in SHIPPED:
        of = ROOT / name
        shutil.copytree(of, source / name) if of.is_dir() else shutil.copy(of, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", source, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/lua/")[2] for name in archive.getnames() if name.endswith(".lua")}
    assert names == SCRIPTS
    # -P keeps the checkout out of the way; the wheel comes before the editable install.
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    installed = run(sys.executable, "-P", "-c", LOAD, cwd=tmp_path, path=tmp_path / "site")
    assert installed == run(sys.executable, "-P", "-c", LOAD, cwd=tmp_path)
    assert run(sys.executable, "-P", "-c", WHERE, cwd=tmp_path, path=tmp_path / "site") == f"{tmp_path}/site\n"
    assert (tmp_path / "site/coordinator/py.typed").exists()
    assert (tmp_path / "site/coordinator/lua").is_dir()
    assert not (tmp_path / "site/lua").exists()


def test_the_checkout_has_no_second_copy_of_the_scripts() -> None:
    assert SCRIPTS
    assert not (ROOT / "coordinator" / "lua").exists()
