"""Outside suites against a cloud: which cloud, what it offers, the suites' configuration, their results and a table."""
