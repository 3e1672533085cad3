"""How many cores a process may use, and how its threads wait for each other."""

import math
import os
import subprocess
import sys

import pytest

from hf_vaswani.runtime.cores import available_cores, cpu_quota, short_waits


def test_cpu_quota_of_a_container_limits_the_cores(tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota(tmp_path, tmp_path / "none") == 1.5
    monkeypatch.setattr("hf_vaswani.runtime.cores.cpu_quota", lambda: 1.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert available_cores() == 2
    monkeypatch.setattr("hf_vaswani.runtime.cores.cpu_quota", lambda: math.inf)
    assert available_cores() == 8


def test_quota_is_the_smallest_of_a_group_and_its_parents(tmp_path):
    for path, quota in (("a/b", "max 100000"), ("a", "200000 100000"), ("", "400000 100000")):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / "cpu.max").write_text(quota)
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    assert cpu_quota(tmp_path, own) == 2


def test_quota_of_cgroups_v1_is_read(tmp_path):
    folder = tmp_path / "cpu,cpuacct" / "job"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    (folder / "cpu.cfs_quota_us").write_text("300000\n")
    own = tmp_path / "own"
    own.write_text("5:devices:/\n4:cpu,cpuacct:/job\n")
    assert cpu_quota(tmp_path, own) == 3
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert cpu_quota(tmp_path, own) == math.inf


@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "5"}])
def test_waits_are_shortened_unless_the_user_sets_how_threads_wait(monkeypatch, given):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with short_waits():
        assert os.environ.get("GOMP_SPINCOUNT") == given.get("GOMP_SPINCOUNT", None if given else "3000")
    assert os.environ.get("GOMP_SPINCOUNT") == given.get("GOMP_SPINCOUNT")


def test_package_loads_torch_with_short_waits():
    """OpenMP reads its settings once, when torch is imported."""
    code = """
import builtins, os
true_import, seen = builtins.__import__, []
def note(name, *rest):
    if name == "torch" and not seen:
        seen.append(os.environ.get("GOMP_SPINCOUNT"))
        raise SystemExit(seen[0])
    return true_import(name, *rest)
builtins.__import__ = note
import hf_vaswani
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY",)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stderr.strip() == "3000"
