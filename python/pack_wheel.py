"""Packs a folder with the files of a wheel into a wheel, for tests: `maturin build` would compile the library again.

Usage: pack_wheel.py FOLDER OUT. The folder has a `*.dist-info` without a record; the wheel is in the folder OUT afterwards.
"""

import base64
import hashlib
import stat
import sys
import zipfile
from pathlib import Path


def main(folder: Path, out: Path) -> None:
    info = next(folder.glob("*.dist-info"))
    description = (info / "WHEEL").read_text().splitlines()
    tag = next(line.removeprefix("Tag: ") for line in description if line.startswith("Tag: "))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    record = []
    # Not compressed: the program is large, and the wheel is unpacked at once.
    with zipfile.ZipFile(out / f"{info.stem}-{tag}.whl", "w", zipfile.ZIP_STORED) as wheel:
        for path in files:
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            entry = zipfile.ZipInfo(name)
            # Only regular files with the right are executable afterwards.
            entry.external_attr = (stat.S_IFREG | (0o755 if ".data/scripts/" in name else 0o644)) << 16
            wheel.writestr(entry, data)
        record.append(f"{info.name}/RECORD,,")
        wheel.writestr(f"{info.name}/RECORD", "\n".join(record) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
