#!/usr/bin/env python3
"""Draws sentences of two revisions, mixed, for readers who do not know which is which: how many make a reader go back?

    tests/draw.py OLD NEW [--each 50] [--seed 1] [--kinds README,screens] >draw.txt
                                                               also writes draw.key: number, revision, kind, file
    tests/draw.py --count draw.key READER.txt...               READER.txt has the numbers at which the reader had to go back

A unit is a sentence of a page, or a comment with the line of code below it, or the head of a table with its first row. Kinds: README, docs (the guide,
without the laboratory), screens (the outputs in README, in the guide, in docs/lab/screens and in tests/golden), comments (of production
code in Rust).
"""
import argparse
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def sentences(text):
    # Code, tables, pictures, headings and HTML are no sentences.
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    lines = ["" if re.match(r"\s*(\||#|!\[|    |>)", line) else line for line in text.split("\n")]
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines)):
        block = " ".join(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block).split())
        block = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", block)
        for one in re.split(r"(?<=[.!?:])\s+(?=[A-Z`\"*])", block):
            if len(one.split()) >= 4:
                yield one


def outputs(page):
    """The blocks of a page that show what a command prints."""
    for language, block in re.findall(r"^```([^\n]*)\n(.*?)^```", page, flags=re.S | re.M):
        if language in ("text", "console", ""):
            yield block


# Lines of a screen that are not for reading: what is typed or pasted, a bar, the end of a cut.
NO_TEXT = re.compile(r"\s*(\$ |# |allocanary |sudo |\.\.\.|[{}\[]|$)|.*([A-Z])\2{5}")
# A remedy, an entry of a list, a note, a headline.
BEGINS = re.compile(r"\s*(\d+\. |- |\S+: |[\d.]+ .iB resident|and \d+ more|rows, )")


def screens(text):
    """The sentences of an output, and of each table the head and the first row."""
    text = re.sub(r"^[─━ ]*[─━]{4,}[─━ ]*$", "", text, flags=re.M)
    for block in re.split(r"\n\s*\n", text):
        lines = [(line, re.search(r"\S {2,}\S", line)) for line in block.split("\n")]
        rows = [line.strip() for line, is_row in lines if is_row and not NO_TEXT.match(line)]
        if len(rows) >= 2:
            yield f"{rows[0]}\n   {rows[1]}"
        paragraphs, last = [], None
        for line, is_row in lines:
            if NO_TEXT.match(line) or is_row and len(rows) >= 2:
                last = None
                continue
            indent = len(re.match(r"\s*(\d+\. |- )?", line)[0])
            if last is None or BEGINS.match(line) or abs(indent - last) >= 2:
                paragraphs.append("")
            paragraphs[-1] += " " + line
            last = indent
        for paragraph in paragraphs:
            for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`\"*])", " ".join(paragraph.split())):
                if len(one.split()) >= 4:
                    yield one


def comments(text):
    """The comments, each with the line of code below it, as a reader sees it."""
    text = text.split("#[cfg(test)]")[0]
    block = []
    for line in [*text.split("\n"), ""]:
        found = re.match(r"\s*//[/!]? ?(.*)", line)
        if found and not found[1].startswith("SAFETY"):
            block.append(found[1])
        elif re.match(r"\s*#", line):
            # An attribute stands between a comment and its item.
            continue
        elif block:
            joined = " ".join(block)
            block = []
            if len(joined.split()) >= 5 and "```" not in joined:
                yield f"{joined}\n      {line.strip() or '(at the top of a file)'}"


def units(revision, kinds):
    for path in git("ls-tree", "-r", "--name-only", revision).split("\n"):
        is_page = path == "README.md" or re.fullmatch(r"docs/[^/]+\.md", path)
        is_screen = re.fullmatch(r"docs/lab/screens/.*\.txt|tests/golden/(?!list-|settings).*\.txt", path)
        if "screens" in kinds and (is_page or is_screen):
            text = git("show", f"{revision}:{path}")
            for output in outputs(text) if is_page else [text]:
                for one in screens(output):
                    yield "screens", path, one
        if path == "README.md":
            kind, split = "README", sentences
        elif is_page:
            kind, split = "docs", sentences
        elif re.fullmatch(r"crates/[^/]+/src/.*\.rs", path) and "test" not in path:
            kind, split = "comments", comments
        else:
            continue
        if kind not in kinds:
            continue
        for one in split(git("show", f"{revision}:{path}")):
            yield kind, path, one


def draw(old, new, each, seed, kinds):
    chance = random.Random(seed)
    drawn = []
    # A screen is in several files. One of them is enough.
    both = {revision: {(kind, one): (kind, path, one) for kind, path, one in units(revision, kinds)}.values() for revision in (old, new)}
    # What stands in both says nothing of either.
    said = lambda one: one.split("\n      ")[0]
    same = {(kind, said(one)) for kind, _, one in both[old]} & {(kind, said(one)) for kind, _, one in both[new]}
    for revision in (old, new):
        for kind in kinds:
            there = sorted(unit for unit in both[revision] if unit[0] == kind and (kind, said(unit[2])) not in same)
            drawn += [(revision, *unit) for unit in chance.sample(there, min(each, len(there)))]
    chance.shuffle(drawn)
    with Path("draw.key").open("w") as key:
        for number, (revision, kind, path, one) in enumerate(drawn, 1):
            print(f"{number}. {one}\n")
            key.write(f"{number}\t{revision}\t{kind}\t{path}\n")


def count(key, readers):
    rows = [line.split("\t") for line in Path(key).read_text().splitlines()]
    all_units = Counter((revision, kind) for _, revision, kind, _ in rows)
    for reader in readers:
        back = set(re.findall(r"^\s*(\d+)", Path(reader).read_text(), flags=re.M))
        found = Counter((revision, kind) for number, revision, kind, _ in rows if number in back)
        print(reader)
        for (revision, kind), number in sorted(all_units.items(), key=lambda one: (one[0][1], one[0][0])):
            print(f"  {kind:9} {revision:12} {found[revision, kind]:3} of {number:3}  {100 * found[revision, kind] / number:5.1f} %")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="README,docs,screens,comments")
    parser.add_argument("--count", action="store_true")
    flags = parser.parse_args()
    if flags.count:
        count(flags.words[0], flags.words[1:])
    else:
        draw(*flags.words, flags.each, flags.seed, flags.kinds.split(","))


if __name__ == "__main__":
    sys.exit(main())
