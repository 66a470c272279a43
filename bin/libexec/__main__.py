"""Runs a program next to this file, or one of ``tools``, by its module's name: ``python bin/libexec up --help``.

Python searches the folder that it is started with for modules, so the programs need no installation and no environment
variable.
"""

import runpy
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
