from __future__ import annotations

from pathlib import Path

import pytest

from suite.measure import cgroup, cpus


def files(root: Path, content: dict[str, str]) -> Path:
    for name, text in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_version_2_takes_the_least_quota_of_all_groups_around_and_what_each_kept_from_running(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/job/step/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/job/cpu.stat": "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500\n",
            "sys/fs/cgroup/job/step/cpu.stat": "usage_usec 9\nnr_throttled 1\nthrottled_usec 1000\n",
        },
    )
    assert cgroup.cpu_quota(root) == 1.5
    assert cgroup.throttled_ms(root) == 3.5


@pytest.mark.parametrize(("quota", "usable"), [(None, 4), (2.5, 3), (0.1, 1), (8.0, 4)])
def test_a_part_of_a_cpu_can_be_used_as_a_whole_one(
    quota: float | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpus, "usable_indices", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: quota)
    assert cpus.usable_cpus() == usable


def test_version_1_in_a_container_that_sees_only_its_own_group(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_throttled 1\nthrottled_time 4000000\n",
        },
    )
    assert cgroup.cpu_quota(root) == 2
    assert cgroup.throttled_ms(root) == 4


def test_memory_is_left_by_the_least_of_all_groups_around_and_by_files_that_nobody_reads(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu:/\n0::/job/step\n",
            "sys/fs/cgroup/job/memory.max": "9000\n",
            "sys/fs/cgroup/job/memory.current": "8000\n",
            "sys/fs/cgroup/job/memory.stat": "anon 7500\ninactive_file 500\n",
            "sys/fs/cgroup/job/step/memory.max": "20000\n",
            "sys/fs/cgroup/job/step/memory.current": "8000\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/memory.current": "9000\n",
        },
    )
    assert cgroup.memory_left(root) == 1500
    of_version_1 = {
        "proc/self/cgroup": "4:memory:/docker/x\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "8000\n",
    }
    assert cgroup.memory_left(files(tmp_path, of_version_1)) == 1000


@pytest.mark.parametrize("content", [{}, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}])
def test_no_limit_is_none(tmp_path: Path, content: dict[str, str]) -> None:
    root = files(tmp_path, content)
    assert cgroup.cpu_quota(root) is None
    assert cgroup.throttled_ms(root) is None
    assert cgroup.memory_left(root) is None
