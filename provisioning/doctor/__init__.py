"""The doctor compares records with each other and with the hosts, reports faults, and repairs them on request.

``checks`` has one module for each subject. A check yields findings; a finding may have a repair.
"""
