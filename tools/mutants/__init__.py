"""Breaks chosen functions in small ways and asks the tests of a tier whether they notice."""
