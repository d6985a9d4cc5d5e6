"""Lists of the trainer's options and of DeepSpeed's keys, as `zpp_info` knows them: a paragraph each, since a sentence is too long for a
cell of a table."""

import subprocess
import textwrap

COLUMNS = 100


def text_of(value):
    return {True: "true", False: "false", "": "empty"}.get(value, str(value)) if isinstance(value, (bool, str)) else str(value)


def paragraph(*sentences):
    """An item of a list, as wide as a page; a name in backquotes is not broken."""
    text = " ".join(sentence.rstrip(".") + "." for sentence in sentences)
    return textwrap.fill(text, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def described(option):
    names = ", ".join(f"`{flag}`" for flag in [option["flag"], *option["other_flags"]])
    if option["kind"] == "boolean":
        names += f" (off: `--no-{option['flag'][2:]}`)"
    return paragraph(f"{names}: {option['help']}", f"Values: {option['values']}; default: {text_of(option['default'])}",
                     f"Key: `{option['path']}`")


def section(group, listed):
    intro = f"{group['summary']} `zpp_train --help {group['name']}` prints this group."
    return f"## {group['title']}\n\n{intro}\n\n" + "\n".join(map(described, listed))


def options(programs):
    """A section for each group, which are those of --help."""
    info = programs.info()
    return "\n\n".join(section(group, [option for option in info["options"] if option["group"] == group["name"]])
                       for group in info["option_groups"])


def keys(programs):
    """Rows of what `zpp_info --config-keys` prints: key, what becomes of it, values, default, meaning."""
    printed = subprocess.run([programs.folder / "zpp_info", "--config-keys"], check=True, capture_output=True, text=True).stdout
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in printed.splitlines()[2:]]


def is_alias(row):
    return row[1] == "works" and row[4].startswith("Another name of ")


def working_keys(programs):
    flags = {option["path"]: option["flag"] for option in programs.info()["options"]}
    return "\n".join(paragraph(f"{row[0]}: `{flags[row[0].strip('`')]}`, {row[2]}; default: {row[3] or 'empty'}")
                     for row in keys(programs) if row[1] == "works" and not is_alias(row))


def other_names(programs):
    return "\n".join(paragraph(f"{row[0]} ({row[2]}): {row[4][0].lower()}{row[4][1:]}") for row in keys(programs) if is_alias(row))


def ignored_keys(programs):
    return "\n".join(paragraph(f"{row[0]}: {row[4]}") for row in keys(programs) if row[1] == "ignored")


def conditional_keys(programs):
    return "\n".join(paragraph(f"{row[0]}, {row[1].replace('; else refused', '')}: {row[4]}") for row in keys(programs)
                     if row[1].startswith("ignored") and row[1] != "ignored")


def refused_keys(programs):
    return "\n".join(paragraph(f"{row[0]}: {row[4]}") for row in keys(programs) if row[1] == "refused")


TABLES = {"options": options, "keys-working": working_keys, "keys-other-names": other_names,
          "keys-ignored": ignored_keys, "keys-conditional": conditional_keys, "keys-refused": refused_keys}
