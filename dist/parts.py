"""What is linked into the files of a package: its licences, and a list for machines (CycloneDX).

    dist/parts.py TRIPLE MANIFEST_FOLDER PACKAGE OUT_FOLDER

In: cargo's dependencies of the package for this target, and the sources that cargo has. Out: `copyright` and `sbom.cdx.json`. Both are
the same for the same sources.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

# What cargo does not know of: C sources inside of crates, and what the compilers add.
INSIDE = {
    "tikv-jemalloc-sys": ("jemalloc", "BSD-2-Clause", ["jemalloc/COPYING"]),
    "libmimalloc-sys": ("mimalloc", "MIT", ["c_src/mimalloc/v3/LICENSE"]),
}
MIMALLOC = "c_src/mimalloc/v3/include/mimalloc.h"
COMPILERS = [
    ("Rust's standard library", "MIT OR Apache-2.0", "The Rust Project Contributors"),
    ("libgcc_eh", "GPL-3.0-or-later WITH GCC-exception-3.1", "Free Software Foundation, Inc."),
    ("start files and libc_nonshared of glibc", "LGPL-2.1-or-later, with the exception for linked files", "Free Software Foundation, Inc."),
]


def cargo(manifest, *words):
    command = ["cargo", *words, "--locked", "--manifest-path", str(manifest)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(triple, manifest, package):
    """The packages that are linked, from cargo's metadata, in the order of their names."""
    tree = cargo(manifest, "tree", "-p", package, "-e", "normal", "--target", triple, "--prefix", "none", "--format", "{p}")
    wanted = {tuple(line.split()[:2]) for line in tree.splitlines() if line and "(proc-macro)" not in line}
    known = json.loads(cargo(manifest, "metadata", "--format-version", "1", "--filter-platform", triple))
    found = [part for part in known["packages"] if (part["name"], "v" + part["version"]) in wanted]
    if len(found) != len(wanted):
        sys.exit(f"parts.py: wanted {len(wanted)} packages in cargo's metadata, found {len(found)}")
    needs = {node["id"]: [one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])] for node in known["resolve"]["nodes"]}
    return sorted(({**part, "needs": needs[part["id"]]} for part in found), key=lambda part: (part["name"], part["version"]))


def inside(part):
    """The C sources inside of a crate: their name, version and licence. `None` for other crates."""
    if part["name"] not in INSIDE:
        return None
    name, licence, _ = INSIDE[part["name"]]
    if name == "jemalloc":
        # 0.7.1+5.3.1-0-g81034ce
        found = re.fullmatch(r".*\+([0-9.]+)-.*", part["version"])
        version = found and found[1]
    else:
        header = Path(part["manifest_path"]).parent / MIMALLOC
        found = re.search(r"MI_MALLOC_VERSION +(\d+)(\d\d)(\d\d)\b", header.read_text())
        version = found and ".".join(str(int(number)) for number in found.groups())
    if not version:
        sys.exit(f"parts.py: {part['name']} {part['version']}: wanted the version of {name}, found none")
    return name, version, licence


def texts(folder, names=None):
    """The licence files of a package; the text of Apache's licence is in a file of its own."""
    files = [folder / name for name in names] if names else sorted(folder.glob("[LlCcNn][IiOo][CcPpTt]*"))
    kept = [path.read_text(errors="replace").strip() for path in files if path.is_file()]
    return [text for text in kept if not re.match(r"\s*Apache License", text) and len(text) < 20000]


def copyright_file(parts, root):
    out = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: allocanary",
        "Source: https://github.com/allocanary/allocanary",
        "",
        "Files: *",
        "Copyright: the authors of allocanary",
        "License: MIT or Apache-2.0",
        " Use allocanary under one of both licences, as you prefer. On Debian the text of",
        " Apache's licence is in /usr/share/common-licenses/Apache-2.0, elsewhere in the",
        " file LICENSE-APACHE next to this one. The text of the MIT licence follows.",
        " .",
        *indented((root / "LICENSE-MIT").read_text()),
        "Comment:",
        " The files contain parts of other projects. Each is named below with its version",
        " and licence, and with the text of the licence where it is not Apache's.",
    ]
    seen = {}
    for name, licence, authors, kept in parts:
        out += [" .", f" == {name}", f" Licence: {licence}"]
        out += [f" Authors: {', '.join(authors)}"] if authors else []
        for text in kept:
            if text in seen:
                out.append(f" Text: as of {seen[text]}")
                continue
            seen[text] = name
            out += [" .", *indented(text)]
    return "\n".join(out) + "\n"


def indented(text):
    return [" " + (line.rstrip().expandtabs() or ".") for line in text.strip().splitlines()]


def all_parts(packages):
    for part in packages:
        folder = Path(part["manifest_path"]).parent
        name = f"{part['name']} {part['version']}"
        if part["source"] is not None:
            yield name, part["license"] or "see its file", part["authors"], texts(folder)
        if part["name"] in INSIDE:
            inside, licence, files = INSIDE[part["name"]]
            kept = texts(folder, files)
            if not kept:
                sys.exit(f"parts.py: {name}: wanted a licence of {inside} in one of {files}, found none")
            yield f"{inside}, in {name}", licence, [], kept[:1]
    for name, licence, holder in COMPILERS:
        yield name, licence, [holder], []


def sbom(packages, root, package):
    lock = (root / "Cargo.lock").read_text()
    sums = {
        (name, version): found
        for name, version, found in re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"', lock)
    }
    url = lambda part: f"pkg:cargo/{part['name']}@{part['version'].replace('+', '%2B')}"
    component = lambda part: {
        "type": "library",
        "bom-ref": url(part),
        "purl": url(part),
        "name": part["name"],
        "version": part["version"],
        "licenses": [{"expression": (part["license"] or "LicenseRef-unknown").replace("/", " OR ")}],
        **({"hashes": [{"alg": "SHA-256", "content": found}]} if (found := sums.get((part["name"], part["version"]))) else {}),
    }
    sources = {part["id"]: found for part in packages if (found := inside(part))}
    url_inside = lambda name, version: f"pkg:generic/{name}@{version}"
    of_c = [
        {
            "type": "library",
            "bom-ref": url_inside(name, version),
            "purl": url_inside(name, version),
            "name": name,
            "version": version,
            "licenses": [{"expression": licence}],
        }
        for name, version, licence in sources.values()
    ]
    by_id = {part["id"]: url(part) for part in packages}
    needs = lambda part: sorted(by_id[one] for one in part["needs"] if one in by_id) + [
        url_inside(*found[:2]) for found in [sources.get(part["id"])] if found
    ]
    top = next(part for part in packages if part["name"] == package)
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    number = uuid.UUID(bytes=hashlib.sha256(lock.encode() + package.encode()).digest()[:16], version=4)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "component": {**component(top), "type": "application"},
        },
        "components": [component(part) for part in packages if part is not top] + of_c,
        "dependencies": [{"ref": url(part), "dependsOn": needs(part)} for part in packages] + [{"ref": one["bom-ref"]} for one in of_c],
    }


def main():
    triple, folder, package, out = sys.argv[1:]
    root, out = Path(folder).resolve(), Path(out)
    packages = linked(triple, root / "Cargo.toml", package)
    licences = Path(__file__).resolve().parent.parent
    (out / "copyright").write_text(copyright_file(all_parts(packages), licences))
    (out / "sbom.cdx.json").write_text(json.dumps(sbom(packages, root, package), indent=1) + "\n")


main()
