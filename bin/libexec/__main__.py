"""Runs one of the programs beside this file by its module's name: ``python bin/libexec up --help``.

With the folder named, Python looks for modules in it: the programs need no installation and no environment variable.
"""

import runpy
import sys

del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
