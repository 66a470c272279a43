"""The output formats of *Copy as*; each is a function that converts API calls to a complete program."""
