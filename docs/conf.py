"""Sphinx's settings of this site: Markdown pages, no network, no link that leads nowhere."""

import pathlib
import re
import shutil

from docutils import nodes

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
    return nodes.reference("", "", contnode, internal=True, refuri=f"{up}tree/{name}.txt")


def copy_linked(app, exception):
    for name in linked if exception is None else ():
        copy = pathlib.Path(app.outdir) / "tree" / f"{name}.txt"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / name, copy)


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
