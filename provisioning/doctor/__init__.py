"""The doctor: compares records with each other and with the hosts, says what is wrong, and repairs it on request.

``checks`` has one module for each subject; a check yields findings, and each finding knows its repair.
"""
