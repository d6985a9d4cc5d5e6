"""Tables of what can be chosen, from `zpp_info --json`."""

import markdown
import option_lists


def yes(value):
    return "yes" if value else "no"


def bits(codec, block):
    """Bits per value on the wire, scales included."""
    return codec["bits"] + 8 * codec["scale_bytes"] / block


def codecs(programs):
    rows = []
    for codec in programs.info()["codecs"]:
        block = codec["default_block"]
        blocks = "-" if codec["maximum_block"] == 1 else f"{codec['minimum_block']} to {codec['maximum_block']}"
        if codec["minimum_block"] == codec["maximum_block"] != 1:
            blocks = str(block)
        each = bits(codec, block) / 8
        sizes = ["as in memory", "as in memory"] if codec["name"] == "none" else [codec["bits"], f"{each:.4f}"]
        rows.append([f"`{codec['name']}`", sizes[0], blocks, "-" if block == 1 else block, sizes[1], codec["summary"]])
    return markdown.table(["name", "bits", "blocks", "default block", "bytes per value", "what it is"], rows, right=(1, 2, 3, 4))


def algorithms(operation):
    def made(programs):
        rows = [[f"`{entry['name']}`", entry["summary"], "any" if entry["any_codec"] else "none", yes(entry["hierarchical"]),
                 "modelled" if entry["modelled"] else "counted"] for entry in programs.info()[operation]]
        return markdown.table(["name", "what it does", "codecs", "two levels", "bytes"], rows)
    return made


def models(programs):
    info = programs.info()
    rows = [[what, ", ".join(f"`{entry['name']}`" for entry in info[key]), flag]
            for what, key, flag in (("models", "models", "`--model`"), ("optimizers", "optimizers", "`--optimizer`"),
                                    ("token sources", "token_sources", "`--data-source`"))]
    return markdown.table(["kind", "names", "flag"], rows)


def deepspeed_reports(programs):
    return "\n".join(option_lists.paragraph(f"**{report['setting']}**: {report['seen']}", report["versions"],
                                            f"Threads: {', '.join(report['threads'])}")
                     for report in programs.info()["deepspeed_reports"])


def nccl_reports(programs):
    rows = [[report["first"], report["fixed"] or "-", report["seen"], report["thread"], report["remedy"]]
            for report in programs.info()["nccl_reports"]]
    return markdown.table(["from", "fixed in", "what happens", "thread", "remedy"], rows)


TABLES = {"codecs": codecs, "all_gather": algorithms("all_gather"), "reduce_scatter": algorithms("reduce_scatter"), "models": models,
          "deepspeed-reports": deepspeed_reports,
          "nccl-reports": nccl_reports, **option_lists.TABLES}
