"""A page: tables and charts with captions, as Markdown, as one HTML file, and a list of its charts.

In: rows of text and drawn charts. Out: file contents by name. The HTML file holds its charts and
its style itself and asks no other place for anything; it has no scripts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

MARKDOWN, HTML, MANIFEST = "report.md", "report.html", "manifest.json"
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "p,dl,figure{max-width:60rem}h1{overflow-wrap:anywhere}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:.9rem;display:block;overflow-x:auto}"
    "th,td{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
    "figure{margin:2rem 0}figcaption{color:#444}"
    ".chart{overflow-x:auto}svg{display:block;width:100%;min-width:36rem;height:auto}"
    "dt{font-weight:bold}code{font-size:.9em;overflow-wrap:anywhere}"
    "@media(max-width:40rem){th:first-child,td:first-child{white-space:normal;"
    "overflow-wrap:anywhere;min-width:8rem}}"
    ".warning{border-left:4px solid #b5532a;padding-left:.8rem}"
)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart; `alt` says in words what it shows, `caption` what it is of."""

    file: str
    caption: str
    alt: str
    svg: str


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says.

    Attributes:
        title, intro: one line each.
        warnings: what a reader must know before believing the figures.
        tables: rows of text; the first of each its head.
        definitions: what the words mean.
        arms: definitions by name.
        commands: command lines that measured it.
    """

    title: str
    intro: str
    warnings: Sequence[str]
    tables: Sequence[Sequence[Sequence[str]]]
    charts: Sequence[Chart]
    definitions: Mapping[str, str]
    arms: Mapping[str, str]
    commands: Sequence[str] = ()


def page_files(page: Page, draw: Callable[[str], bytes] | None = None) -> dict[str, bytes]:
    """Return both forms of the page, its charts and their list, by file name.

    `draw` turns SVG text into PNG bytes; with it each chart is there in both forms.
    """
    charts: dict[str, tuple[bytes, Chart]] = {}
    for chart in page.charts:
        charts[chart.file] = chart.svg.encode(), chart
        if draw is not None:
            charts[chart.file.removesuffix(".svg") + ".png"] = draw(chart.svg), chart
    return {
        MARKDOWN: _markdown(page).encode(),
        HTML: _html(page).encode(),
        **{name: content for name, (content, _) in charts.items()},
        MANIFEST: _manifest(charts).encode(),
    }


def _manifest(charts: Mapping[str, tuple[bytes, Chart]]) -> str:
    """Return the list of charts as JSON: file, bytes, SHA-256, caption, alternative text."""
    listed = [
        {
            "file": name,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "caption": chart.caption,
            "alt": chart.alt,
        }
        for name, (content, chart) in charts.items()
    ]
    return json.dumps({"charts": listed}, indent=2, ensure_ascii=False) + "\n"


def _markdown(page: Page) -> str:
    lines = [
        f"# {page.title}",
        "",
        page.intro,
        "",
        *(f"- **{warning}**" for warning in page.warnings),
        *([""] if page.warnings else []),
    ]
    for chart in page.charts:
        alt = chart.alt.replace("[", "(").replace("]", ")")
        lines += [f"![{alt}]({chart.file})", "", f"*{chart.caption}*", ""]
    lines += [line for rows in page.tables for line in (*_markdown_table(rows), "")]
    lines += ["## What the words mean", ""]
    lines += [f"- {name}: {meaning}" for name, meaning in page.definitions.items()]
    if page.arms:
        lines += ["", "## Arms", ""]
        lines += [f"- {name}: `{text}`" for name, text in page.arms.items()]
    if page.commands:
        lines += ["", "## Measured by", "", *(f"    {command}" for command in page.commands)]
    return "\n".join(lines) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    ruler = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, ruler, *body)]


def _html(page: Page) -> str:
    title = escape(page.title)
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        f"<p>{escape(page.intro)}</p>",
        *(f'<p class="warning">{escape(warning)}</p>' for warning in page.warnings),
        *(
            f'<figure><div class="chart">{chart.svg}</div>'
            f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
            for chart in page.charts
        ),
        *(_html_table(rows) for rows in page.tables),
        "<h2>What the words mean</h2><dl>",
        *(
            f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>"
            for name, meaning in page.definitions.items()
        ),
        "</dl>",
        *(["<h2>Arms</h2><dl>"] if page.arms else []),
        *(
            f"<dt>{escape(name)}</dt><dd><code>{escape(text)}</code></dd>"
            for name, text in page.arms.items()
        ),
        *(["</dl>"] if page.arms else []),
    ]
    if page.commands:
        lines.append("<h2>Measured by</h2>")
        lines += [f"<p><code>{escape(command)}</code></p>" for command in page.commands]
    return "\n".join([*lines, "</body></html>"]) + "\n"


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = [f"<table><thead><tr>{titles}</tr></thead><tbody>"]
    for row in body:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table>"])
