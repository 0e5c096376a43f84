"""The documentation page of the server: one HTML page from its OpenAPI description, offline and without scripts."""

import json
from collections.abc import Mapping
from typing import Any

import jinja2

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ api.info.title }} {{ api.info.version }}</title>
<style>body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
pre { background: #f4f4f4; padding: 1em; overflow-x: auto } td, th { text-align: left; padding-right: 1.5em }</style>
</head><body>
<h1>{{ api.info.title }} {{ api.info.version }}</h1>
<p style="white-space: pre-line">{{ api.info.description }}</p>
<p>As JSON: <a href="openapi.json">openapi.json</a></p>
{% for path, methods in api.paths.items() %}{% for method, operation in methods.items() %}
<h2 id="{{ path }}"><code>{{ method | upper }} {{ path }}</code></h2>
<p>{{ operation.description }}</p>
{% set body = body_of(operation) %}
{% if body %}<p>Body: <a href="#{{ body }}">{{ body }}</a></p>{% endif %}
{% endfor %}{% endfor %}
{% for name, schema in api.components.schemas.items() %}
<h3 id="{{ name }}">{{ name }}</h3>
<p>{{ schema.description }}</p>
<table><tr><th>field</th><th>type</th><th></th></tr>
{% for field, about in schema.get("properties", {}).items() %}
<tr><td><code>{{ field }}</code>{{ " (required)" if field in schema.get("required", []) }}</td>
<td>{{ type_of(about) }}</td><td>{{ about.description }}</td></tr>
{% endfor %}</table>
{% endfor %}
</body></html>
"""


def docs_page(api: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI description, as ``FastAPI.openapi()`` returns it."""
    template = jinja2.Environment(autoescape=True).from_string(_PAGE)
    return template.render(api=api, body_of=_body_of, type_of=_type_of)


def _body_of(operation: Mapping[str, Any]) -> str:
    """Return the name of the schema of an operation's body; empty if it has none."""
    content = operation.get("requestBody", {}).get("content", {})
    return str(content.get("application/json", {}).get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _type_of(about: Mapping[str, Any]) -> str:
    """Return a short description of a field's type.

    >>> _type_of({"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/x/Passage"}]}})
    'list of (string or Passage)'
    """
    if "$ref" in about:
        return str(about["$ref"]).rpartition("/")[2]
    if "anyOf" in about:
        return " or ".join(map(_type_of, about["anyOf"]))
    if about.get("type") == "array":
        item = _type_of(about.get("items", {}))
        return f"list of ({item})" if " or " in item else f"list of {item}"
    if "const" in about:
        return json.dumps(about["const"])
    return str(about.get("type", "anything"))
