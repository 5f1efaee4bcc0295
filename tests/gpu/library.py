"""Makes a folder of wheels, or what ``pip install --target`` has filled, importable without pip."""

import os
import sys
import zipfile
from pathlib import Path


def use(folder: Path | None, scratch: Path) -> None:
    """Put the folder where this process, and those it starts, look for packages and for commands."""
    if folder is None:
        return
    place = unpacked(folder, scratch / "lib")
    sys.path.append(str(place))
    # Last of these, though all of them stand before site-packages (README.md).
    os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(place)])
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(place / "bin")])


def unpacked(folder: Path, place: Path) -> Path:
    """The folder itself, or ``place`` with its wheels unpacked: zip files cannot hold compiled code."""
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        return folder.resolve()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(place)
    (place / "bin").mkdir(exist_ok=True)
    for command in place.glob("*.data/scripts/*"):
        command.chmod(0o755)
        command.replace(place / "bin" / command.name)
    return place
