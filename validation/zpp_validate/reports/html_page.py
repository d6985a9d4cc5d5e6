"""An HTML page that needs nothing but itself: no script, no address, nothing of what files say taken for markup.

Markup is made by element() alone, which escapes whatever text it is given; only what it returned passes as it is. A
policy in the head forbids the browser what the page does not use, should anything slip through all the same.
"""

import base64
import html
import unicodedata

VOID = {"meta", "img", "br"}

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem 1.2rem 3rem; background: #ffffff; color: #1d2530;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .6rem 0 .3rem; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .5rem; padding-top: .8rem; border-top: 2px solid #d5dbe3; overflow-wrap: \
anywhere; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
p, ul { margin: .4rem 0; max-width: 70ch; overflow-wrap: anywhere; }
a { color: #00508f; }
.note { color: #55606e; font-size: .9rem; }
.scroll { overflow-x: auto; margin: .3rem 0 .8rem; }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #55606e; padding-bottom: .3rem; }
th, td { padding: .22rem .5rem; border-bottom: 1px solid #e3e7ed; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid #b7c0cc; background: #f4f6f9; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
td.long { min-width: 14rem; overflow-wrap: anywhere; }
.good, .bad { font-weight: 600; border-radius: .3rem; padding: .05rem .45rem; white-space: nowrap; }
.good { color: #0b5a2a; background: #dff3e4; }
.bad { color: #8a1111; background: #fde3e1; }
ul.reasons { color: #8a1111; }
img { display: block; width: 100%; min-width: 46rem; height: auto; margin: .4rem 0; }
summary { cursor: pointer; color: #00508f; margin: .5rem 0; }
pre { overflow-x: auto; background: #f4f6f9; padding: .7rem; font-size: .8rem; line-height: 1.35; }
@media print { summary { display: none; } h2 { break-before: page; } }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Markup(str):
    """What element() made: goes into other elements as it is. Any other text is escaped."""


def element(tag, *content, **attributes):
    """`content`: texts, numbers, Markup, lists of them. An attribute's name may end in _, as class_; None leaves it
    out."""
    words = "".join(f' {name.rstrip("_").replace("_", "-")}="{html.escape(printable(value), quote=True)}"'
                    for name, value in attributes.items() if value is not None)
    return Markup(f"<{tag}{words}>" if tag in VOID else f"<{tag}{words}>{inner(content)}</{tag}>")


def inner(content):
    if isinstance(content, Markup):
        return content
    return "".join(map(inner, content)) if isinstance(content, (list, tuple)) else html.escape(printable(content))


def printable(value):
    """What HTML forbids, and what is not seen but turns the direction of text, becomes the character for one that is
    none."""
    return "".join("\ufffd" if unicodedata.category(char)[0] == "C" and char not in "\t\n" else char
                   for char in str(value))


def table(header, rows, caption=None):
    """`header`: names of columns; one that begins with # is of numbers, one with = of long texts. Rows of as many
    cells."""
    classes = [{"#": "number", "=": "long"}.get(name[0]) for name in header]
    heads = [element("th", name.lstrip("#="), scope="col", class_="number" if kind == "number" else None)
             for name, kind in zip(header, classes)]
    body = [element("tr", [element("td", cell, class_=kind) for cell, kind in zip(row, classes)]) for row in rows]
    return element("div", element("table", element("caption", caption) if caption else [],
                                  element("thead", element("tr", heads)),
                                  element("tbody", body)), class_="scroll")


def verdict(is_valid):
    return element("span", "VALID" if is_valid else "INVALID", class_="good" if is_valid else "bad")


def folded(title, *content):
    """Opens without a script."""
    return element("details", element("summary", title), *content)


def picture(svg, description):
    """`svg`: a document, as bytes. As an image it is apart from the page: its names are its own, and no script runs in
    it."""
    source = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
    return element("div", element("img", src=source, alt=description), class_="scroll")


def page(title, *content):
    head = element("head", element("meta", charset="utf-8"),
                   element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                   element("meta", http_equiv="Content-Security-Policy", content=POLICY), element("title", title),
                   Markup(f"<style>{STYLE}</style>"))
    return "<!DOCTYPE html>\n" + element("html", head, "\n", element("body", element("main", *content)),
                                         lang="en") + "\n"
