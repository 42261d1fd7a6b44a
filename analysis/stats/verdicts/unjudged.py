"""Why a study has no verdict: only what was written down before it ran is judged."""

from analysis.data.configs import study_changes, study_text
from analysis.data.load import SweepData
from analysis.data.runs import UNFINISHED, unlisted_runs
from analysis.stats.question import Question, is_own


def without_verdict(data: SweepData, question: Question) -> str:
    """Why a study is not judged, as a sentence; empty if it is. Only what was written down before it ran is."""
    reason = _unlike_written(data)
    if not reason and not is_own(question, data):
        reason = "this is another question than the study asks; compare without options"
    unfinished = int(data.runs["status"].isin(UNFINISHED).sum())
    if not reason and unfinished:
        reason = f"{unfinished} of its {len(data.runs)} runs have not ended"
    return f"No verdict on study {data.study.get('name')}: {reason}." if reason else ""


def _unlike_written(data: SweepData) -> str:
    changed = study_changes(data.folder)
    if changed is None:
        return "the command that started it is not on record (multirun.yaml)"
    if changed:
        return f"it was changed on the command line ({' '.join(changed)}), so its claims were not made of these runs"
    if data.runs["sweep"].nunique() > 1 or unlisted_runs(data.folder):
        return "there are runs beside its own, so its claims were not made of these runs"
    if len({study_text(folder) for folder in data.runs["folder"]} - {None}) > 1:
        return "its text was changed after some of its runs were trained; a changed study is a new one"
    return ""
