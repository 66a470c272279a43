"""Every action of EC2's model, both ways: botocore writes what we read, and reads what we write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from botocore.model import OperationModel, Shape
from botocore.parsers import EC2QueryParser
from botocore.serialize import EC2Serializer

from portal.api.ec2.frame import Ec2Error
from portal.api.ec2.protocol import model, parse, render
from tests.support.tables import each_row

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_VALUES: dict[str, Any] = {
    "integer": 7,
    "long": 1 << 40,
    "boolean": True,
    "float": 1.5,
    "double": 2.25,
    "timestamp": MOMENT,
    "blob": b"\x00<&",
}


def _example(shape: Shape, within: tuple[str, ...] = ()) -> Any:
    """A value of the shape with everything in it, two of each list; what has itself in it ends there."""
    if shape.type_name == "structure":
        inner = {
            name: _example(member, (*within, shape.name))
            for name, member in shape.members.items()
            if member.name not in within and not (member.type_name == "list" and member.member.name in within)
        }
        return {name: value for name, value in inner.items() if value not in ({}, [])}
    if shape.type_name == "list":
        first = _example(shape.member, (*within, shape.name))
        return [] if first in ({}, []) else [first, first]
    if shape.type_name == "string":
        return shape.enum[0] if shape.enum else "a <b> & 'c' é"
    return _VALUES[shape.type_name]


def _operations() -> list[OperationModel]:
    return [model.operation(name) for name in sorted(model.names())]


@pytest.mark.slow
def test_what_botocore_writes_is_read() -> None:
    wrong = []
    for operation in (each for each in _operations() if each.input_shape is not None):
        given = _example(operation.input_shape)
        body = EC2Serializer().serialize_to_request(given, operation)["body"]
        pairs = [(name, str(value)) for name, value in parse_qsl(urlencode(body), keep_blank_values=True)]
        result = parse.arguments(
            operation, [(name, value) for name, value in pairs if name not in {"Action", "Version"}]
        )
        if result != given:
            wrong.append(operation.name)
    assert not wrong


@pytest.mark.slow
def test_what_is_written_botocore_reads() -> None:
    wrong = []
    for operation in (each for each in _operations() if each.output_shape is not None):
        given = _example(operation.output_shape)
        body = _answer(operation, given)
        answer = {"body": body, "headers": {}, "status_code": 200}
        result = EC2QueryParser(timestamp_parser=_moment).parse(answer, operation.output_shape)
        if result.pop("ResponseMetadata")["RequestId"] != "req-1" or result != given:
            wrong.append(operation.name)
    assert not wrong


def _answer(operation: OperationModel, result: dict[str, Any], version: str = "2016-11-15") -> bytes:
    return render.document(operation, render.body(operation, result), request_id="req-1", version=version)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_an_answer_without_a_result_says_true() -> None:
    body = _answer(model.operation("DeleteVolume"), {}, "2012-12-01")
    assert b'xmlns="http://ec2.amazonaws.com/doc/2012-12-01/"' in body
    assert b"<return>true</return>" in body


def test_what_the_model_does_not_have_is_not_written() -> None:
    with pytest.raises(LookupError, match="Colour"):
        render.body(model.operation("CreateVolume"), {"Colour": "red"})


def test_what_xml_cannot_say_is_replaced() -> None:
    body = render.body(model.operation("CreateVolume"), {"VolumeId": "a\x00b\ud800"})
    assert "<volumeId>a�b�</volumeId>" in body


@each_row(
    ("name", "pairs", "code"),
    [
        ("CreateVolume", {"Size": "1"}, None),
        ("CreateVolume", {"Size": "1", "Colour": "red"}, "UnknownParameter"),
        ("CreateVolume", {"Size": "one"}, "InvalidParameterValue"),
        ("CreateVolume", {"Size": str(1 << 31)}, "InvalidParameterValue"),
        ("CreateVolume", {"Size": "1\0"}, "InvalidParameterValue"),
        ("CreateVolume", {"Size.1": "1"}, "UnknownParameter"),
        ("CreateVolume", {"Encrypted": "perhaps"}, "InvalidParameterValue"),
        ("CreateVolume", {"TagSpecification": "x"}, "InvalidParameterValue"),
        ("CreateVolume", {"TagSpecification.1": "x"}, "InvalidParameterValue"),
        ("CreateVolume", {"TagSpecification.x.ResourceType": "volume"}, "UnknownParameter"),
        ("CreateVolume", {"TagSpecification.1.ResourceType": "castle"}, "InvalidParameterValue"),
        ("CreateTags", {"ResourceId.1": "a", "ResourceId.01": "b"}, "MalformedQueryString"),
        ("CreateVolume", {"A." * 30: "x"}, "UnknownParameter"),
        ("CreateVolume", {f"TagSpecification.{'9' * 40}.ResourceType": "volume"}, "UnknownParameter"),
        ("DeleteVolume", {}, "MissingParameter"),
        ("DescribeInstances", {"InstanceId": "i-1"}, None),
        ("ImportKeyPair", {"KeyName": "a", "PublicKeyMaterial": "&"}, "InvalidParameterValue"),
        ("DescribeSpotPriceHistory", {"StartTime": "yesterday"}, "InvalidParameterValue"),
        ("DescribeSpotPriceHistory", {"StartTime": "2026-01-32"}, "InvalidParameterValue"),
        ("DescribeSpotPriceHistory", {"StartTime": "0001-01-01T00:00:00+14:00"}, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(name: str, pairs: dict[str, str], code: str | None) -> None:
    if code is None:
        parse.arguments(model.operation(name), list(pairs.items()))
        return
    with pytest.raises(Ec2Error) as error:
        parse.arguments(model.operation(name), list(pairs.items()))
    assert error.value.ec2_code == code


def test_members_of_a_list_come_in_the_order_of_their_numbers() -> None:
    given = [("InstanceId.10", "c"), ("InstanceId.2", "b"), ("InstanceId.1", "a")]
    assert parse.arguments(model.operation("DescribeInstances"), given)["InstanceIds"] == ["a", "b", "c"]
