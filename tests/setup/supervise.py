"""Run the supervisor over stand-in programs: ``supervise.py DATA PROGRAMS.json``, until a signal comes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bin" / "libexec"))

from up.data_folder import DataFolder
from up.service import Program
from up.supervisor import Supervisor

data = DataFolder(Path(sys.argv[1]), default=Path("/nonexistent"))
data.claim()
data.acquire()
programs = [
    Program(given["name"], given["command"], dict(os.environ), given.get("stop_within", 5.0))
    for given in json.loads(Path(sys.argv[2]).read_text())
]
supervisor = Supervisor(data, programs, lambda text: print(text, flush=True))
supervisor.prepare()
supervisor.show_warnings = True
while not supervisor.stopping:
    supervisor.step(0.05)
supervisor.stop([program.name for program in reversed(programs)])
print("stopped", flush=True)
