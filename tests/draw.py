#!/usr/bin/env python3
"""Draws sentences of two revisions, mixed, for readers who do not know which is which: how many make a reader go back?

    tests/draw.py OLD NEW [--each 50] [--seed 1] >draw.txt      also writes draw.key: number, revision, kind, file
    tests/draw.py --count draw.key READER.txt...               READER.txt has the numbers at which the reader had to go back

A unit is a sentence of a page, or a comment in a block of code. Kinds: README, docs (the guide, without the laboratory), comments (of
production code in Rust).
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


def comments(text):
    text = text.split("#[cfg(test)]")[0]
    block = []
    for line in [*text.split("\n"), ""]:
        found = re.match(r"\s*//[/!]? ?(.*)", line)
        if found and not found[1].startswith("SAFETY"):
            block.append(found[1])
        elif block:
            joined = " ".join(block)
            block = []
            if len(joined.split()) >= 5 and "```" not in joined:
                yield joined


def units(revision):
    for path in git("ls-tree", "-r", "--name-only", revision).split("\n"):
        if path == "README.md":
            kind, split = "README", sentences
        elif re.fullmatch(r"docs/[^/]+\.md", path):
            kind, split = "docs", sentences
        elif re.fullmatch(r"crates/[^/]+/src/.*\.rs", path) and "test" not in path:
            kind, split = "comments", comments
        else:
            continue
        for one in split(git("show", f"{revision}:{path}")):
            yield kind, path, one


def draw(old, new, each, seed):
    chance = random.Random(seed)
    drawn = []
    both = {revision: set(units(revision)) for revision in (old, new)}
    # What stands in both says nothing of either.
    same = {(kind, one) for kind, _, one in both[old]} & {(kind, one) for kind, _, one in both[new]}
    for revision in (old, new):
        for kind in ("README", "docs", "comments"):
            there = sorted(unit for unit in both[revision] if unit[0] == kind and (kind == "comments" or (kind, unit[2]) not in same))
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
    parser.add_argument("--count", action="store_true")
    flags = parser.parse_args()
    if flags.count:
        count(flags.words[0], flags.words[1:])
    else:
        draw(*flags.words, flags.each, flags.seed)


if __name__ == "__main__":
    sys.exit(main())
