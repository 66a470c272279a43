"""What hashing a password costs, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys

import argon2
import pytest
from django.contrib.auth.hashers import check_password, make_password

SCRIPT = """
import threading
from django.conf import settings
settings.configure()
from provisioning.identity.credentials.secret_hashes import Argon2Hasher

def held():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))

hasher = Argon2Hasher()
encoded = hasher.encode("password", "salt" * 4)
before = held()
for _ in range(2):
    threads = [threading.Thread(target=hasher.verify, args=("password", encoded)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(held() - before)
"""


def test_passwords_are_kept_as_argon2id_of_owasps_parameters(real_hashes: None) -> None:
    encoded = make_password("correct horse")
    parameters = argon2.extract_parameters(encoded.removeprefix("argon2"))
    assert parameters.type is argon2.Type.ID
    assert (parameters.time_cost, parameters.memory_cost, parameters.parallelism) == (2, 19_456, 1)
    assert check_password("correct horse", encoded)
    assert not check_password("wrong", encoded)


@pytest.mark.slow
@pytest.mark.deep
def test_many_sign_ins_leave_no_memory_behind() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 16_384, "KiB more than before"
