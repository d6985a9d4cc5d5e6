"""Sphinx's settings of this site: Markdown pages, no network, no link that leads nowhere."""

import html
import pathlib
import re
import shutil

from docutils import nodes
from markdown_it import MarkdownIt

HERE = pathlib.Path(__file__).resolve().parent

project = "zeropp"
author = "the zeropp authors"
copyright = author  # the name that Sphinx reads
release = re.search(r"^project\(zeropp VERSION ([\d.]+)", (HERE.parent / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)

extensions = ["myst_parser"]
myst_heading_anchors = 3  # links to a heading are those of a forge
nitpicky = True
exclude_patterns = ["figures", "tables"]

html_theme = "furo"
html_title = f"zeropp {release}"
html_copy_source = False
html_static_path = ["site"]
html_css_files = ["wide.css"]

TREE = HERE.parent
linked = set()  # files of the source tree outside of these pages, which pages link to


def slug(heading):
    """The anchor that a forge gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 62em; margin: 2em auto; padding: 0 1em; font-family: sans-serif; line-height: 1.5; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }} td, th {{ border: 1px solid #8888; padding: 0.2em 0.6em; }}
pre {{ overflow-x: auto; }} img {{ max-width: 100%; }}
</style>
<body>
{body}
</html>
"""


def copy_of(name):
    """Where the site has a file of the tree: a page of Markdown as HTML, another text as it is."""
    return name.removesuffix(".md") + ".html" if name.endswith(".md") else f"{name}.txt"


def file_of_the_tree(app, env, node, contnode):
    """A link to a text outside of docs/ leads to a copy of it; one to a file or a heading that is not there stays unresolved."""
    target, _, anchor = node["reftarget"].partition("#")
    path = (pathlib.Path(env.doc2path(node["refdoc"])).parent / target).resolve()
    if not path.is_file() or TREE not in path.parents:
        return None
    if anchor and anchor not in {slug(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)}:
        return None
    name = path.relative_to(TREE).as_posix()
    linked.add(name)
    up = "../" * node["refdoc"].count("/")
    return nodes.reference("", "", contnode, internal=True, refuri=f"{up}tree/{copy_of(name)}")


def rendered(page, pictures):
    """A page of Markdown as HTML. Links lead where the site has a copy, others are words; adds `pictures`."""
    def link(match):
        label, target = match[1], match[2].partition("#")[0]
        if "://" in target:
            return match[0]
        path = (page.parent / target).resolve()
        if match[0].startswith("!") and path.is_file():
            pictures.add(path.relative_to(TREE).as_posix())
            return match[0]
        name = path.relative_to(TREE).as_posix() if TREE in path.parents else ""
        return f"[{label}]({copy_of(target)})" if name in linked else label

    text = re.sub(r"!?\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)]*)\)", link, page.read_text())
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    return PAGE.format(title=html.escape(title[1] if title else page.name), body=MarkdownIt("commonmark").enable("table").render(text))


def copy_linked(app, exception):
    tree, pictures = pathlib.Path(app.outdir) / "tree", set()
    for name in linked if exception is None else ():
        copy = tree / copy_of(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            copy.write_text(rendered(TREE / name, pictures))
        else:
            shutil.copyfile(TREE / name, copy)
    for name in pictures:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / name, tree / name)


def join_scripts(app, exception):
    """Debian's package of the theme has its script, which switches to dark, as one that imports another which exports
    nothing. Joined they run."""
    scripts = pathlib.Path(app.outdir) / "_static" / "scripts"
    if exception is None and (scripts / "furo.js").is_file():
        own = (scripts / "furo.js").read_text()
        imported = re.match(r'import Gumshoe from "\./(.*)";\n', own)
        if imported:
            (scripts / "furo.js").write_text((scripts / imported[1]).read_text() + own[imported.end():])


def setup(app):
    app.connect("missing-reference", file_of_the_tree)
    app.connect("build-finished", copy_linked)
    app.connect("build-finished", join_scripts)
