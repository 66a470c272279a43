"""The forms of a call's text; each is a function from calls to a complete program."""
