"""A page read back: its elements, its text, and whether only its own script can run."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from suite.review.__main__ import main

TAGS = set(
    re.findall(
        r"[\w-]+",
        """html head meta title style body header h1 p strong br span main section h2 h3 article pre code dl dt dd div
    table caption thead tbody tr th td figure svg line text a polyline polygon circle rect figcaption ul li
    details summary script wbr""",
    )
)
ATTRIBUTES = set(
    re.findall(
        r"[\w-]+",
        """lang charset http-equiv content name class id role aria-label aria-labelledby aria-hidden scope tabindex href
    data-sort viewbox preserveaspectratio x y x1 x2 y1 y2 cx cy r width height points text-anchor""",
    )
)
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)//",
    "</style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onfocus=alert(1) autofocus='",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "\u202egnp.exe",
    "\x00\x1b[2J\r\n",
    "\ud800",
    "x" * 5000,
]


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.sources, self.policy = [], [], [], {}, ""
        self._open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self._open.append(tag)
        values = dict(attributes)
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag in ("meta", "br", "wbr"):
            self._open.pop()

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_data(self, data):
        if self._open and self._open[-1] in ("script", "style"):
            self.sources[self._open[-1]] = self.sources.get(self._open[-1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())


def page_of(path, tmp_path, *options):
    main([str(path), "--html", str(tmp_path / "page.html"), "--json", *options])
    text = (tmp_path / "page.html").read_text()
    assert "\u202e" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    return Page(text)


def sound(page):
    """Assert that a page has only our own elements, and runs only our own script."""
    assert set(page.tags) <= TAGS
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert all(re.fullmatch(r"#finding-\d+", value) for name, value in page.attributes if name == "href")
    assert page.tags.count("script") == page.tags.count("style") == 1
    has_policy(page)


def has_policy(page):
    """Assert that nothing but the page's own script and style can be run or loaded."""
    for name, directive in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(page.sources[name].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in page.policy
    assert page.policy.startswith("default-src 'none';")
    assert "unsafe" not in page.policy
