"""A data folder for each test run, set before Django reads its settings; a real cloud's folder is never touched."""

import atexit
import os
import pathlib
import shutil
import tempfile

ALLOWED = {"NOVELLA_TESTS_ALLOW_SKIP"}
"""The one variable that speaks to the tests and not to Novella."""

for _name in [name for name in os.environ if name.startswith("NOVELLA_") and name not in ALLOWED]:
    del os.environ[_name]

_folder = tempfile.mkdtemp(prefix="nv-test-")  # short: paths of unix sockets end at 107 bytes
os.environ["NOVELLA_DATA"] = _folder
os.environ["NOVELLA_PUBLIC_URL"] = "http://127.0.0.1:8000"  # else that of Django's test client, testserver
os.environ["NOVELLA_RATE_LIMITS"] = "none"  # what tests do in a second is none of what people do
os.environ["NOVELLA_SQLITE_TIMEOUT"] = "300"  # a busy machine is no failure
_static = pathlib.Path(_folder) / "portal" / "static"  # collectstatic's place: WhiteNoise warns when it is absent
_static.mkdir(parents=True)
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
