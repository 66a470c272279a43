"""Changes chosen functions in small ways, and checks whether the tests of a tier fail."""
