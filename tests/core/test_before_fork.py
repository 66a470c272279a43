"""Memory of a process that forks others: children must not write to pages that they share."""

import subprocess
import sys

import pytest

GAPS = 2000
FRAGMENTED = f"""
import ctypes
from provisioning.common.processes import before_fork

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = before_fork._MallInfo
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
blocks = [libc.malloc(1500) for _ in range({2 * GAPS})]
for block in blocks[::2]:
    libc.free(block)
print(libc.mallinfo2().ordblks)
before_fork.keep_shared()
print(libc.mallinfo2().ordblks)
"""


@pytest.mark.slow
def test_new_blocks_of_children_do_not_lie_between_old_ones() -> None:
    done = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = (int(count) for count in done.stdout.split())
    assert before >= GAPS
    assert after < GAPS / 20
