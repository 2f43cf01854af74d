"""Install distributions for a test: only their metadata, in a folder of their own."""

from pathlib import Path


def install(folder: Path, name: str, **extras: list[str]) -> None:
    """Install `name`, with the requirements of each of its extras, for processes that have `folder` on `sys.path`."""
    info = folder / f"{name.replace('-', '_')}-1.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1"]
    for extra, wanted in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        for each in wanted:
            requirement, _, marker = each.partition("; ")
            condition = f'{marker} and extra == "{extra}"' if marker else f'extra == "{extra}"'
            lines.append(f"Requires-Dist: {requirement}; {condition}")
    (info / "METADATA").write_text("\n".join(lines) + "\n")
