"""Checks that an OpenAPI document is valid, that its examples match their schemas, and that all its components are used."""

import json
import sys

import jsonschema_rs
import schemathesis


# JSON Schema dialect of OpenAPI 3.1.
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def nodes(value, at="#"):
    """Yields every object in the document with its location."""
    if isinstance(value, dict):
        yield at, value
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from nodes(inner, f"{at}/{key}")


def examples(document):
    """Yields every example with its location and its schema."""
    for at, node in nodes(document):
        if isinstance(node.get("schema"), dict):
            if "example" in node:
                yield at, node["schema"], node["example"]
            for name, example in node.get("examples", {}).items():
                yield f"{at}/examples/{name}", node["schema"], example["value"]
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", []):
            yield f"#/components/schemas/{name}", schema, example


def faults(document):
    components = document["components"]
    for name, schema in components["schemas"].items():
        if not jsonschema_rs.meta.is_valid({"$schema": DIALECT, **schema}):
            yield f"{name} is not a valid JSON schema"
    for at, schema, example in examples(document):
        validator = jsonschema_rs.Draft202012Validator({**schema, "components": components})
        for error in validator.iter_errors(example):
            yield f"{at}: {error.message}"
    references = {node["$ref"] for _, node in nodes(document) if isinstance(node.get("$ref"), str)}
    for kind, named in components.items():
        # Security schemes are used by name, without a reference.
        if kind != "securitySchemes":
            yield from (f"{kind}/{name} is not used" for name in named if f"#/components/{kind}/{name}" not in references)
    operations = [
        operation
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    ids = [operation["operationId"] for operation in operations]
    yield from (f"duplicate operationId {name}" for name in set(ids) if ids.count(name) > 1)
    for link in components["links"].values():
        if link["operationId"] not in ids:
            yield f"a link refers to the unknown operationId {link['operationId']}"


def main(path):
    schemathesis.openapi.from_path(path).validate()
    with open(path, encoding="utf-8") as file:
        found = list(faults(json.load(file)))
    sys.exit("\n".join(found) or 0)


main(sys.argv[1])
