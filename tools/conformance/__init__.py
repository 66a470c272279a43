"""Runs other projects' test suites against a cloud: the cloud, its facts, the suites' configuration, results and a
table.
"""
