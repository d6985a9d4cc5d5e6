"""Raw data that results/ keeps: the archive raw.tar.xz of each question, results/MACHINE/QUESTION/. A file in it has
the path that it would have beside the question's page. JSON in it is compact."""

import atexit
import functools
import pathlib
import tarfile
import tempfile

ARCHIVE = "raw.tar.xz"


@functools.cache
def unpacked(question):
    """A temporary folder with what the archive of this question holds; it is removed when the process ends."""
    place = tempfile.TemporaryDirectory(prefix="zpp-results-")
    atexit.register(place.cleanup)
    with tarfile.open(question / ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # newer Python warns without one
        archive.extractall(place.name)
    return pathlib.Path(place.name)


def folder(path):
    """The unpacked folder that stands for `path`: a question, or a folder in its archive."""
    question = next((up for up in (path, *path.parents) if (up / ARCHIVE).is_file()), None)
    if question is None:
        raise FileNotFoundError(2, "no folder above it has raw.tar.xz", str(path))
    return unpacked(question) / path.relative_to(question)


def json_files(results):
    """(path below `results`, content) of every JSON file in every archive, in order."""
    for archive in sorted(results.glob(f"*/*/{ARCHIVE}")):
        with tarfile.open(archive) as files:
            for member in files:
                if member.name.endswith(".json"):
                    yield archive.parent.relative_to(results) / member.name, files.extractfile(member).read()
