"""bin/bench moves: the cost of moves of guests between hosts, beside the bare commands."""
