"""Self-contained pages: templates that escape, with style and script inside, and a policy that allows only these."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from suite import __version__
from suite.plots import charts
from suite.record.summary import format_cost, format_count, format_energy, format_restarts, format_seconds

_JOINTS = re.compile(r"(?<=[^\W_][-_/+,:;=@])(?=\w)")
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"


def environment(*packages: str) -> jinja2.Environment:
    """The templates in these packages and here. Every value is escaped, and one that is not given is an error."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, ".") for package in (*packages, "suite.plots")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    made.filters["jointed"] = jointed
    return made


def page(
    name: str, package: str, css: Sequence[str] = ("page.css",), js: Sequence[str] = ("page.js",), **values: Any
) -> str:
    """Render a package's template `name` with its style and script, and with what every page can show."""
    templates = environment(package)
    style, script = source(templates, *css), source(templates, *js)
    return templates.get_template(name).render(
        css=style,
        js=script,
        policy=policy(style, script),
        version=__version__,
        format_seconds=format_seconds,
        format_cost=format_cost,
        format_count=format_count,
        format_energy=format_energy,
        format_restarts=format_restarts,
        c=charts,
        **values,
    )


def jointed(text: str) -> Markup:
    """A name, escaped, that a browser may break after `_`, `-`, `/` and the like, as at a space."""
    return Markup("<wbr>").join(_JOINTS.split(text))


def source(templates: jinja2.Environment, *names: str) -> Markup:
    """The joined text of files beside the templates, as it stands in a page."""
    assert templates.loader
    return Markup("").join(Markup(templates.loader.get_source(templates, name)[0]) for name in names)


def policy(css: str, js: str) -> str:
    """The page's Content-Security-Policy: only this style and this script, by their hashes, and nothing loaded."""
    return f"{POLICY}; style-src {_sum(css)}; script-src {_sum(js)}"


def _sum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
