"""Cases for the tests of the HTML report: traces with markup planted wherever a file has text, and a strict reader of
pages."""

import base64
import html.parser
import json
import xml.etree.ElementTree

import synthetic_converge
import synthetic_trace

SCRIPT = "<script>document.title='ran'</script>"
BREAKOUT = "\"><img src=x onerror=\"document.title='ran'\"><!-- '$\\frac{ ]]>"
VOID = {"meta", "img"}
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "a", "span", "div", "table",
        "thead", "tbody", "tr", "th", "td", "ul", "li", "img", "details", "summary", "pre"}


def planted(folder):
    """Traces in folders of `folder` whose names have markup as well: two of training and one of convergence, all VALID;
    and one of training that is INVALID, with markup in the reason."""
    paths = []
    for name, case in (("plain", {}), ("a<b>&\"'$x", dict(synthetic_trace.FEATURES, measure=1)), ("invalid", {})):
        attributes, groups = synthetic_trace.make(case)
        for text in ("command_line", "started_at", "blas_library", "git_commit", "mpi_library"):
            attributes[text] = SCRIPT + BREAKOUT
        config = json.loads(attributes["config_json"])
        config["zeropp"]["note"] = f"{name} {SCRIPT}"
        synthetic_trace.configure(attributes, config)
        groups["ranks"]["host"] = [f"{SCRIPT}{BREAKOUT}" for _ in groups["ranks"]["host"]]
        groups["collectives"]["seconds"] = [0.25 + index for index, _ in enumerate(groups["collectives"]["seconds"])]
        if name == "invalid":
            groups["collectives"]["algorithm"][0] = SCRIPT
        (folder / name).mkdir()
        paths.append(folder / name / "train.h5")
        synthetic_trace.write(paths[-1], attributes, groups)
    settings = [each | {"name": f"{each['name']} {SCRIPT} $_{{", "baseline": each["baseline"]
                        and f"{each['baseline']} {SCRIPT} $_{{"}
                for each in synthetic_converge.LADDER]
    paths.append(synthetic_converge.write(folder / "converge.h5", *synthetic_converge.make(settings)))
    return paths[:2] + paths[3:], paths[2]


class Page(html.parser.HTMLParser):
    """Raises AssertionError for what is not balanced or not allowed. `tags`: (name, attributes) in their order; `text`:
    all of it; `tables`: rows of cells, by the heading before."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.text, self.ids, self.links, self.images = [], [], "", set(), set(), []
        self.tables, self.heading, self.cell = {}, "", None
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"
        assert self.links <= self.ids, f"links to nothing: {self.links - self.ids}"

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, f"<{tag}>"
        assert len(dict(attrs)) == len(attrs), attrs
        for name, value in attrs:
            self.check_attribute(tag, name, value)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h2", "h3"):
            self.heading = ""
        elif tag == "tr":
            self.tables.setdefault(self.heading, []).append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def check_attribute(self, tag, name, value):
        assert not name.startswith("on") and name != "style", f"{tag} {name}"
        if name == "id":
            assert value not in self.ids, f"twice: {value}"
            self.ids.add(value)
        elif name == "href":
            assert value.startswith("#"), value
            self.links.add(value[1:])
        elif name == "src":
            head, _, data = value.partition(",")
            assert head == "data:image/svg+xml;base64", head
            self.images.append(base64.b64decode(data, validate=True).decode())

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another"
        if tag in ("td", "th"):
            self.tables[self.heading][-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("h2", "h3"):
            self.heading += data
        if self.cell is not None:
            self.cell += data

    def unknown_decl(self, data):
        raise AssertionError(f"<![{data}")

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def check_images(self):
        """Well-formed, without a script, and with no address but names of their own."""
        for image in self.images:
            for node in xml.etree.ElementTree.fromstring(image).iter():
                assert not node.tag.endswith("}script"), node.tag
                for name, value in node.attrib.items():
                    assert not name.startswith("on"), name
                    assert not name.endswith("href") or value.startswith(("#", "data:image/png;base64,")), value
