"""Both forms of a page, and the list of its charts."""

import hashlib
import json
from html.parser import HTMLParser

from leeway.report.page import HTML, MANIFEST, MARKDOWN, Chart, Page, page_files

CHART = Chart("a.svg", "A <caption>", "one [and] two", "<svg><text>é</text></svg>\n")
PAGE = Page(
    title="Bench & more",
    intro="temperature 1 < 2",
    warnings=["mind <this>"],
    tables=[[["arm", "x"], ["soft<1>", "1.5"]]],
    charts=[CHART],
    definitions={"x": "a & b"},
    arms={"soft": "typical:delta=0.2"},
    commands=["leeway bench run -a '<plain>'"],
)


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def seen():
    parser = Seen()
    parser.feed(page_files(PAGE)[HTML].decode())
    return parser


def test_the_html_page_says_everything_and_escapes_it():
    texts = seen().texts
    for expected in (
        "Bench & more", "temperature 1 < 2", "mind <this>", "soft<1>", "1.5", "A <caption>",
        "a & b", "typical:delta=0.2", "leeway bench run -a '<plain>'", "é",
    ):  # fmt: skip
        assert expected in texts


def test_the_html_page_needs_nothing_from_elsewhere():
    parser = seen()
    assert not {"script", "link", "img", "iframe", "object"} & set(parser.tags)
    assert {"svg", "figure", "figcaption", "table"} <= set(parser.tags)
    assert not [value for name, value in parser.attributes if name in ("src", "href")]
    whole = page_files(PAGE)[HTML]
    assert b"@import" not in whole and b"url(" not in whole


def test_the_markdown_page_names_its_charts():
    page = page_files(PAGE)[MARKDOWN].decode()
    assert "![one (and) two](a.svg)" in page and "*A <caption>*" in page
    assert "| soft<1> | 1.5 |" in page and "- **mind <this>**" in page


def test_the_list_of_charts_has_their_bytes_and_digests():
    files = page_files(PAGE)
    raw = files["a.svg"]
    assert len(raw) > len(raw.decode())
    assert json.loads(files[MANIFEST]) == {"charts": [listed("a.svg", raw)]}


def listed(name, content):
    return {
        "file": name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "caption": "A <caption>",
        "alt": "one [and] two",
    }


def test_where_pixels_can_be_drawn_both_forms_are_there_and_listed():
    files = page_files(PAGE, lambda svg: b"pixels of " + svg[:5].encode())
    assert files["a.png"] == b"pixels of <svg>"
    both = [listed(name, files[name]) for name in ("a.svg", "a.png")]
    assert json.loads(files[MANIFEST]) == {"charts": both}
