"""How long names and other words may be."""

SHORT, LONG = 64, 255
