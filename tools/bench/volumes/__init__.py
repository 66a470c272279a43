"""bin/bench volumes: what Block Storage costs beside the bare commands."""
