#!/usr/bin/env python3
"""Fails if a Markdown page of this repository has a relative link to a file that is missing, or to a heading that is missing.

    tests/links.py [FOLDER]      the root of a clone [default: the one of this script]

It reads the pages that git knows or would add. Links with a scheme (https:) are not followed.
"""
import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^()\s]+)\)|<(?:a|img)\s[^>]*(?:href|src)=\"([^\"]+)\"|^\[[^\]]+\]:\s+(\S+)")
SCHEME = re.compile(r"[a-z][a-z+.-]*:|//", re.I)


def prose(text):
    """The lines of a page, with empty ones in place of blocks of code."""
    fence = None
    for line in text.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (fence is None or line.strip().startswith(fence)):
            fence = mark[1] if fence is None else None
            yield ""
        else:
            yield "" if fence else line


def anchors(text):
    """The names that GitHub gives to a page's headings: lower case, without punctuation, numbered if they repeat."""
    seen, found = {}, set()
    for line in prose(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def links(text):
    """Each link of a page with the number of its line."""
    for number, line in enumerate(prose(text), 1):
        for found in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            yield number, next(target for target in found.groups() if target)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    listed = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    pages = [root / name for name in subprocess.check_output(listed, text=True).split("\0") if name and (root / name).is_file()]
    texts = {page.resolve(): page.read_text() for page in pages}
    named = {page: anchors(text) for page, text in texts.items()}
    checked, wrong = 0, []
    for page, text in texts.items():
        for number, target in links(text):
            if SCHEME.match(target):
                continue
            checked += 1
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists():
                fault = "no such file"
            elif anchor and to in named and anchor not in named[to]:
                fault = "no such heading"
            else:
                continue
            wrong.append(f"{page.relative_to(root.resolve())}:{number}: {target}: {fault}")
    print("\n".join(wrong + [f"{checked} relative links in {len(texts)} pages, {len(wrong)} wrong"]))
    # No link at all would be an error of this script.
    sys.exit(1 if wrong or not checked else 0)


main()
