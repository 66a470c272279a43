"""Measures of servers, hosts, projects and the cloud: what they use, for an hour, a day and a month
(decision 33).
"""
