"""The pages of the site as Markdown with links among each other, in a folder that the site's builder reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from benchmarks.site.markdown import anchors, for_python_markdown, pieces, relink, title

HOME = "README.md"
LONG = ("docs/variants.md", "docs/claims_explored.md", "docs/coverage.md")  # a page for each of their sections
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)  # that of a data set's card, for a hub
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".cff": "yaml", ".md": "markdown"}


class BrokenLinkError(Exception):
    """A link of a page leads nowhere."""


@dataclass
class Page:
    """A page of the site: where its links start from, and its Markdown."""

    origin: str
    text: str


@dataclass
class Site:
    """Pages and files by their path on the site, and where those of the repository went."""

    root: Path
    pages: dict[str, Page] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)  # path in the repository -> path on the site
    sections: dict[tuple[str, str], str] = field(default_factory=dict)  # (path, anchor) of a page in pieces -> link

    def add(self, place: str, origin: str, text: str) -> None:
        """Add a page; ``origin`` is the path in the repository that its links start from."""
        self.pages[place] = Page(origin, FRONT_MATTER.sub("", text))
        self.places.setdefault(origin, place)

    def cut(self, origin: str, text: str) -> None:
        """Add a long page as one page for each section, below a page that lists them."""
        folder = origin.removeprefix("docs/").removesuffix(".md")
        head, parts = pieces(text)
        listed = [f"- [{title(part.text)}]({folder}/{part.name}.md)" for part in parts]
        for part in parts:
            place = f"{folder}/{part.name}.md"
            self.pages[place] = Page(origin, part.text)
            self.places[f"docs/{place}"] = place
            self.sections |= {(origin, name): f"{place}#{name}" for name in anchors(part.text)}
            self.sections |= {(origin, name): place for name in part.tops}
        self.add(f"{folder}.md", origin, head + "\n## Pages\n\n" + "\n".join(listed) + "\n")

    def place_of(self, path: str) -> str:
        """Return where a path of the repository is on the site, after adding a page for it if there is none."""
        if path in self.places:
            return self.places[path]
        source = self.root / path
        if source.is_dir():
            entries = sorted({PurePosixPath(name).relative_to(path).parts[0] for name in tracked(self.root, path)})
            place = (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}") + "/index.md"
            about = source / HOME
            text = about.read_text(encoding="utf-8") + "\n## Files\n" if about.is_file() else f"# {path}\n"
            listed = "\n".join(f"- [{entry}]({entry})" for entry in entries if entry != HOME)
            self.add(place, f"{path}/{HOME}", f"{text}\n{listed}\n")
            self.places[path] = place
        elif source.suffix == ".ipynb":
            self.add(f"source/{path}.md", path, notebook(source))
        elif source.is_file():
            text = source.read_text(encoding="utf-8")
            fence = "`" * (4 if "```" in text else 3)
            language = LANGUAGES.get(source.suffix, "text")
            self.add(f"source/{path}.md", path, f"# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n")
        else:
            raise BrokenLinkError(f"no such file: {path}")
        return self.places[path]

    def target(self, page: str, link: str) -> str:
        """Return what a link of a page is on the site."""
        if "://" in link or link.startswith(("mailto:", "data:")):
            return link
        origin = self.pages[page].origin
        path, _, anchor = link.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(origin), path)) if path else origin
        if (path, anchor) in self.sections:
            return relative(page, self.sections[path, anchor])
        try:
            place = self.place_of(path)
        except BrokenLinkError as error:
            raise BrokenLinkError(f"{origin}: {link}: {error}") from None
        if anchor and place in self.pages and anchor not in anchors(self.pages[place].text):
            raise BrokenLinkError(f"{origin}: {link}: {path} has no heading #{anchor}")
        return relative(page, place + (f"#{anchor}" if anchor else ""))

    def write(self, folder: Path) -> None:
        """Write all pages and files below a folder, which is made anew."""
        shutil.rmtree(folder, ignore_errors=True)
        written: set[str] = set()
        while rest := [place for place in self.pages if place not in written]:  # links add pages of source files
            for place in rest:
                text = relink(self.pages[place].text, lambda link, place=place: self.target(place, link))
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_text(for_python_markdown(text), encoding="utf-8")
            written |= set(rest)
        for place, source in self.files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / place)


def relative(page: str, link: str) -> str:
    """Return a link that starts at the root of the site as one that starts at a page."""
    path, mark, anchor = link.partition("#")
    return (
        os.path.relpath(path, os.path.dirname(page) or ".") + mark + anchor if path != page else mark + anchor or path
    )


def tracked(root: Path, *folders: str) -> list[str]:
    """Return the files below folders that git tracks, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(name for name in set(names) if name and (root / name).is_file())


def notebook(source: Path) -> str:
    """Return a notebook as a page: its text, its code, and the text that the code printed."""
    lines = []
    for cell in json.loads(source.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        lines.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        printed = "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))
        lines += [f"```text\n{printed.rstrip()}\n```"] if printed else []
    return "\n\n".join(lines) + "\n"


def collect(root: Path, made: Mapping[str, str]) -> Site:
    """Return the site of a checkout.

    Args:
        root: The checkout.
        made: Pages that are no files of it, by their path below ``docs/``.

    Returns:
        README.md as its first page, every file of docs/, and the pages that were made.
    """
    site = Site(root)
    site.add("index.md", HOME, (root / HOME).read_text(encoding="utf-8"))
    for name in tracked(root, "docs"):
        place = name.removeprefix("docs/")
        if name in LONG:
            site.cut(name, (root / name).read_text(encoding="utf-8"))
        elif name.endswith("README.md"):
            place = place.replace("README.md", "index.md")
            site.add(place, name, (root / name).read_text(encoding="utf-8"))
            site.places[os.path.dirname(name)] = place
        elif name.endswith(".md"):
            site.add(place, name, (root / name).read_text(encoding="utf-8"))
        else:
            site.files[place] = root / name
            site.places[name] = place
    for place, text in made.items():
        site.add(place, f"docs/{place}", text)
    return site
