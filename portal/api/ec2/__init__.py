"""The EC2 API: the Query protocol of AWS clients over the same services as every other face.

Source of names and shapes: botocore's model of the service, version 2016-11-15, which reads requests and writes
answers.
"""
