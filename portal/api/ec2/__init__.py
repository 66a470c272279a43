"""The EC2 API: the Query protocol of AWS clients, on the same services as the other APIs.

Names and formats come from botocore's model of the service, version 2016-11-15, which also parses requests and
serializes responses.
"""
