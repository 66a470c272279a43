"""Maximum lengths of names and other texts."""

SHORT, LONG = 64, 255
