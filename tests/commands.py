#!/usr/bin/env python3
"""Fails if a page shows a command line of allocanary with a verb or a flag that the command does not have.

    tests/commands.py [COMMAND] [PAGE...]     [default: target/release/allocanary; README.md, METHOD.md, docs, docs/lab, c_glue]

It reads blocks of code and `code` in a line, and compares flags with the long help of their verb. It starts no program of a page.
"""
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "METHOD.md", "SECURITY.md", "docs/*.md", "docs/lab/*.md", "c_glue/README.md", "crates/trace/FORMAT.md"]
# Where a command ends in a shell.
ENDS = re.compile(r"(?:;|&&|\|\||\||&|>|<|\)|\$\(|^\s*#|\s#).*", re.S)


def helped(command, *words):
    return subprocess.run([command, *words], capture_output=True, text=True).stdout


@cache
def flags(command, verb):
    """The flags in the head of each entry of a help: `  -o, --out-dir <FOLDER>`."""
    text = helped(command, *([verb] if verb else []), "--help")
    return set(re.findall(r"^ +(-\w)\b", text, re.M)) | set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]*)", text, re.M)) | {"--help", "-h"}


@cache
def verbs(command):
    listed = re.search(r"\[possible values: (.*?)\]|$", helped(command, "help", "--help"))[1]
    found = set(re.findall(r"^  ([a-z][a-z-]*)  ", helped(command, "--help"), re.M)) | set((listed or "").split(", "))
    return found | set(re.search(r"More verbs: (.*)", helped(command, "-h"))[1].split()) | {"help"}


def blocks(text):
    """Each piece of code of a page, with the number of its line. Continued lines are one."""
    lines, inside, number = text.split("\n"), False, 0
    while number < len(lines):
        line, begin = lines[number], number + 1
        number += 1
        if re.match(r"\s*```", line):
            inside = not inside
        elif inside or line.startswith("    "):
            # A line goes on after a backslash, and in the quoted load of a service.
            while number < len(lines) and (line.endswith("\\") or "--load '" in line and line.count("'") % 2):
                line = line.removesuffix("\\") + " " + lines[number]
                number += 1
            yield begin, line
        else:
            yield from ((begin, code) for code in re.findall(r"`([^`]+)`", line))


def said(code):
    """The command lines of allocanary in a piece of code, as words."""
    # Not `cargo run -p allocanary` and `helm install allocanary`.
    for found in re.finditer(r"(?:^|[\s;&|(=/])(?<!-p )(?<!install )allocanary (?=\S)", code):
        # A quoted text may have what would end a command.
        kept = re.sub(r"'[^']*'|\"[^\"]*\"", "QUOTED", code[found.end():])
        kept = ENDS.sub("", kept)
        try:
            words = shlex.split(kept)
        except ValueError:
            words = kept.split()
        words = words[: words.index("--")] if "--" in words else words
        # The script `kubectl-allocanary` is `allocanary kube`.
        yield ["kube", *words] if code[: found.start() + 1].rstrip().endswith("kubectl") else words


def faults(command, words):
    verb = words[0] if words and words[0] in verbs(command) else None
    if words and not verb and len(words) > 1 and re.fullmatch(r"[a-z][a-z-]*", words[0]) and not words[1].startswith("-"):
        yield f"`allocanary {' '.join(words)}`: no verb {words[0]}"
    known = flags(command, verb)
    for word in words[1:] if verb else words:
        flag = word.split("=")[0]
        if re.fullmatch(r"-\w|--[a-z][a-z-]*", flag) and flag not in known:
            yield f"`allocanary {' '.join(words)}`: no flag {flag} of {verb or 'a process'}"


def main():
    command = str(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/allocanary").resolve())
    pages = [Path(page) for page in sys.argv[2:]] or [page for pattern in PAGES for page in sorted(ROOT.glob(pattern))]
    checked, wrong = 0, []
    for page in pages:
        for number, code in blocks(page.read_text()):
            for words in said(code):
                checked += 1
                wrong += [f"{page}:{number}: {fault}" for fault in faults(command, words)]
    print("\n".join(wrong + [f"{checked} command lines of allocanary in {len(pages)} pages, {len(wrong)} wrong"]))
    # No command line at all would be an error of this script.
    sys.exit(1 if wrong or not checked else 0)


main()
