"""The docs site: its Markdown, its links, and the one line that a broken link ends in."""

import subprocess

import pytest

from benchmarks.parts.common import ROOT
from benchmarks.site.__main__ import HERE, settings
from benchmarks.site.markdown import anchors, for_python_markdown, pieces, relink, slug, title
from benchmarks.site.stage import BrokenLinkError, collect


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = {f"{name}.md": f"# {name}\n" for name in ("papers", "keys", "json", "api")}
    found = collect(ROOT, made)
    found.write(tmp_path_factory.mktemp("site") / "docs")
    return found


@pytest.fixture
def checkout(tmp_path):
    """A checkout with a first page, a page in pieces and a file outside of docs/."""

    def make(**pages):
        texts = {"README.md": "# Home\n", "conf/a.yaml": "a: 1\n", **{f"docs/{k}.md": v for k, v in pages.items()}}
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        found = collect(tmp_path, {})
        found.write(tmp_path / "out")
        written = (tmp_path / "out").rglob("*.md")
        return {path.relative_to(tmp_path / "out").as_posix(): path.read_text("utf-8") for path in written}

    return make


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("norm: local", "norm-local"),
        ("What `make ablation` shows", "what-make-ablation-shows"),
        ("What to touch for …", "what-to-touch-for-"),
        ("`study=grpo_tcr`", "studygrpo_tcr"),
        ("[claims.md](claims.md) and more", "claimsmd-and-more"),
    ],
)
def test_an_anchor_is_that_of_github(heading, anchor):
    assert slug(heading) == anchor


def test_links_change_and_code_does_not():
    text = '[a](x.md) `[b](x.md)` ![c](x.svg)\n<img src="x.svg" width="3">\n```\n[d](x.md)\n```\n'
    found = relink(text, str.upper)
    assert found == '[a](X.MD) `[b](x.md)` ![c](X.SVG)\n<img src="X.SVG" width="3">\n```\n[d](x.md)\n```\n'


def test_a_list_is_one_for_python_markdown():
    assert for_python_markdown("text:\n- a\n  - b\n  c\n\nend\n") == "text:\n\n- a\n    - b\n    c\n\nend\n"
    assert for_python_markdown("```\na\n- b\n  - c\n```\n") == "```\na\n- b\n  - c\n```\n"


def test_a_long_page_is_cut_at_its_sections():
    head, (first, second) = pieces('# T\n\n<a id="c1"></a>\n## C1. One\n\n### x\n\n```\n## no\n```\n## two: y\n')
    assert head == "# T\n\n" and title(first.text) == "C1. One" and anchors(second.text) == {"two-y"}
    assert (first.name, first.tops) == ("c1", {"c1-one", "c1"}) and second.name == "two"
    assert first.text == "# C1. One\n\n## x\n\n```\n## no\n```\n"


def test_links_lead_to_pieces_to_source_files_and_to_folders(checkout):
    links = "[n](variants.md#norm) [l](variants.md#norm-local) [c](../conf/a.yaml) [f](../conf) [h](../README.md)"
    out = checkout(variants="# V\n\n## norm\n\n### norm: local\n\n[b](x.md)\n", x=f"# X\n\n{links}\n")
    found = (
        "[n](variants/norm.md) [l](variants/norm.md#norm-local) [c](source/conf/a.yaml.md) [f](source/conf/index.md)"
    )
    assert found in out["x.md"] and "[h](index.md)" in out["x.md"]
    assert "[b](../x.md)" in out["variants/norm.md"] and "- [norm](variants/norm.md)" in out["variants.md"]
    assert "a: 1" in out["source/conf/a.yaml.md"] and "- [a.yaml](a.yaml.md)" in out["source/conf/index.md"]


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("no.md", "docs/x.md: no.md: no such file: docs/no.md"),
        ("y.md#no", "docs/x.md: y.md#no: docs/y.md has no heading #no"),
        ("#no", "docs/x.md: #no: docs/x.md has no heading #no"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(checkout, link, message):
    with pytest.raises(BrokenLinkError) as caught:
        checkout(x=f"# X\n\n[a]({link})\n", y="# Y\n")
    assert str(caught.value) == message


def test_every_page_of_docs_has_a_place_in_the_navigation(site):
    text = (HERE / "site.yaml").read_text(encoding="utf-8")
    assert "tour/four_pillars.md" in settings(site, text)
    with pytest.raises(BrokenLinkError, match=r"nav has no place for docs/metrics\.md$"):
        settings(site, text.replace("      - metrics.md\n", ""))
    with pytest.raises(BrokenLinkError, match=r"no such page: no\.md$"):
        settings(site, text.replace("Home: index.md", "Home: no.md").replace("nav:\n", "nav:\n  - index.md\n"))


def test_there_is_a_page_for_each_axis_and_each_claim(site):
    axes = {
        place.removeprefix("variants/").removesuffix(".md") for place in site.pages if place.startswith("variants/")
    }
    assert {"norm", "clip", "agg", "kl", "filter", "preset"} <= axes
    assert {f"claims_explored/c{number}.md" for number in range(1, 21)} <= set(site.pages)
