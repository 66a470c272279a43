"""The cache in a file: what any of Django's does, in all processes of a machine, and after their end."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from provisioning.common.machine import machine_cache
from provisioning.common.machine.machine_cache import MachineCache

ADD = """
import sys
from django.conf import settings
settings.configure()
from provisioning.common.machine.machine_cache import MachineCache
cache = MachineCache(sys.argv[1], {})
for _ in range(200):
    cache.incr("count")
print(cache.get("count"))
"""


@pytest.fixture
def cache(tmp_path: Path) -> MachineCache:
    return MachineCache(str(tmp_path / "run" / "counts.sqlite3"), {"OPTIONS": {"MAX_ENTRIES": 100}})


def test_entries_are_there_until_they_are_over(cache: MachineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.set("a", [1, 2.5, "x"], 100)
    assert cache.add("a", 2, 100) is False
    assert cache.add("b", 2, 100) is True
    assert cache.incr("b", 3) == 5
    assert cache.get_many(["a", "b", "c"]) == {"a": [1, 2.5, "x"], "b": 5}
    now = machine_cache.time.time()
    monkeypatch.setattr(machine_cache.time, "time", lambda: now + 90)
    assert cache.touch("a", 100) is True
    monkeypatch.setattr(machine_cache.time, "time", lambda: now + 110)
    assert (cache.get("a"), cache.get("b", "gone")) == ([1, 2.5, "x"], "gone")
    assert cache.delete("a") is True
    assert cache.delete("a") is False
    with pytest.raises(ValueError, match="not found"):
        cache.incr("b")
    assert cache.touch("b") is False
    cache.set("c", 1, None)
    cache.clear()
    assert cache.get("c") is None


@pytest.mark.slow
def test_processes_and_threads_count_together(cache: MachineCache, tmp_path: Path) -> None:
    cache.set("count", 0, 1000)
    command = [sys.executable, "-c", ADD, str(tmp_path / "run" / "counts.sqlite3")]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]

    def count() -> None:
        for _ in range(100):
            with cache.exclusive():
                cache.set("count", cache.get("count") + 1, 1000)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.communicate()
        assert other.returncode == 0
    assert cache.get("count") == 600


def test_what_ends_first_makes_room(cache: MachineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_cache, "SWEEP_EVERY", 150)
    cache.set("known", 1, 10_000)
    for number in range(149):
        cache.set(f"wrong-{number}", 1, 100 + number)
    assert cache.get("known") == 1
    assert cache.get("wrong-0") is None
    assert cache.get("wrong-148") == 1


def test_a_damaged_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "counts.sqlite3"
    path.write_bytes(b"this is no database" * 1000)
    cache = MachineCache(str(path), {})
    cache.set("a", 1)
    assert cache.get("a") == 1
    assert path.stat().st_mode & 0o777 == 0o600
