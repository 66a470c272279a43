"""bin/bench volumes: the cost of Block Storage compared with the bare commands."""
