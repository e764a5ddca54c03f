"""Packs what dist/build.sh made as a Python wheel: the command goes to the environment's `bin`, its files to `lib/allocanary`.

    dist/wheel.py TREE VERSION ARCH GLIBC README OUT_FOLDER

In: the tree. Out: OUT_FOLDER/allocanary-VERSION-py3-none-manylinux_..._ARCH.whl, the same bytes for the same tree. A wheel is a zip
file with a list of its files; pip and uv copy what is below NAME.data/scripts and NAME.data/data to the environment.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

# Under share/doc pip has no use for them; licences go to the metadata.
LEFT_OUT = ("share/doc/", "share/zsh/site-functions/", "share/fish/")


def page(readme):
    """The README without its picture and with links that work outside of the repository."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)\n+", "", readme)
    home = "https://github.com/allocanary/allocanary/blob/main/"
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", lambda found: f"]({home}{found[1]})", text)


def metadata(version, readme):
    return f"""Metadata-Version: 2.4
Name: allocanary
Version: {version}
Summary: Where the memory of a service is, and what its allocator costs: a command for any program on Linux
Home-page: https://github.com/allocanary/allocanary
License-Expression: MIT OR Apache-2.0
License-File: copyright
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{page(readme)}"""


def main():
    tree, version, arch, glibc, readme, out = sys.argv[1:]
    tree, root = Path(tree), Path(__file__).resolve().parent.parent
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{arch}"
    name = f"allocanary-{version}"
    info, data = f"{name}.dist-info", f"{name}.data"
    files = []
    for path in sorted(tree.rglob("*")):
        place = path.relative_to(tree).as_posix()
        if path.is_dir() or place.startswith(LEFT_OUT):
            continue
        where = f"{data}/scripts/{path.name}" if place.startswith("bin/") else f"{data}/data/{place}"
        files.append((where, path.read_bytes(), os.access(path, os.X_OK)))
    wheel = f"Wheel-Version: 1.0\nGenerator: allocanary dist\nRoot-Is-Purelib: false\nTag: {tag}\n"
    doc = tree / "share/doc/allocanary"
    files += [
        (f"{info}/METADATA", metadata(version, Path(readme).read_text()).encode(), False),
        (f"{info}/WHEEL", wheel.encode(), False),
        (f"{info}/licenses/copyright", (doc / "copyright").read_bytes(), False),
        (f"{info}/licenses/LICENSE-MIT", (root / "LICENSE-MIT").read_bytes(), False),
        (f"{info}/licenses/LICENSE-APACHE", (root / "LICENSE-APACHE").read_bytes(), False),
        (f"{info}/sboms/sbom.cdx.json", (doc / "sbom.cdx.json").read_bytes(), False),
    ]
    record = f"{info}/RECORD"
    lines = []
    for where, content, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{where},sha256={digest},{len(content)}\n")
    files.append((record, ("".join(lines) + f"{record},,\n").encode(), False))
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    target = Path(out) / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for where, content, runs in files:
            entry = zipfile.ZipInfo(where, when)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            archive.writestr(entry, content)
    print(f"{target} {target.stat().st_size} bytes")


main()
