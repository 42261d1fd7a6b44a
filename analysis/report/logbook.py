"""A sweep's answer as cells of a Trackio logbook: `rlexp report runs/<sweep> --logbook`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.gallery import SECTIONS
from rlexp.analysis.report.page import ReportPage, sweep_command
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.report.tables import claim_text, comparison_table, csv_text, markdown, markdown_text
from rlexp.analysis.stats.verdicts import EXPLORATORY


def add_to_logbook(page: ReportPage, arguments: Sequence[str]) -> str:
    """Add the answer of a report to the logbook of this folder, or of one above.

    The page of the sweep gets its command, what came out with the tables and notes, a cell for each expectation of its
    study, and the figures of the results with each run's score as data. A second call adds the cells again, below.

    Args:
        page: what was written.
        arguments: of `rlexp report`, without `--logbook`.

    Returns:
        The title of the page.

    Raises:
        AnalysisError: Trackio is not installed, or there is no logbook.
    """
    try:
        from trackio import logbook
    except ImportError:
        raise AnalysisError("--logbook: needs Trackio: pip install 'rlexp[trackio]'") from None
    book = logbook.find_project_dir()
    if book is None:
        start = 'trackio logbook open --no-serve --title "…"'
        raise AnalysisError(f"--logbook: no Trackio logbook in this folder or above; start one: {start}")
    title = printable(page.data.folder.resolve().name)
    place = logbook.ensure_page(book, title)
    commands = [sweep_command(page.data.folder), shlex.join(["rlexp", "report", *arguments])]
    text = "\n".join(filter(None, commands))
    logbook.add_code_cell(book, place, "", "How to get this again", code_text=text, language="sh")
    logbook.add_markdown_cell(book, place, answer_text(page), "What came out")
    for verdict in page.answer.verdicts:
        said = f"**{verdict.verdict}**: {markdown_text(claim_text(verdict))}\n\n{markdown_text(verdict.reason)}"
        logbook.add_markdown_cell(book, place, f"{said}\n\n{EXPLORATORY}", f"Expectation: {verdict.verdict}")
    scores = csv_text(page.answer.data.runs[["variant", "seed", "status", "score"]], index=False)
    with TemporaryDirectory() as folder:
        for figure in page.figures:
            if figure.section == SECTIONS[0]:
                layout.save_figure(figure.figure, Path(folder) / figure.name)
                image = Path(folder) / f"{figure.name}.svg"
                logbook.add_figure_cell(book, place, raw=scores, title=figure.title, image=image)
    return title


def answer_text(page: ReportPage) -> str:
    """Return summary, tables and notes as Markdown."""
    summary = summarize(page.data, page.answer)
    titled = {"What was asked": [summary.question], "What came out": summary.findings, "How sure": summary.confidence}
    parts = [f"**{title}**: {markdown_text(' '.join(lines))}" for title, lines in titled.items()]
    for comparison in page.answer.tables:
        heading = ", ".join(filter(None, [comparison.heading, comparison.stratum]))
        parts += [f"**{markdown_text(heading)}**", markdown(comparison_table(comparison))]
    notes = [*page.answer.notes, *(f"{problem.run}: {problem.reason}" for problem in page.answer.data.problems)]
    return "\n\n".join([*parts, "\n".join(f"- {markdown_text(note)}" for note in notes)])
