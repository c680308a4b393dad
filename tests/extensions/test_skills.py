"""The list of skills in the brief, and the tool that loads them."""

from __future__ import annotations

from pathlib import Path

from sidecar.extensions.contract import Skill
from sidecar.extensions.skills import BRIEF_CHARS, list_skills, show_skill


def make_skill(folder: Path, name: str = "pdf", text: str = "Steps.") -> Skill:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: Does it.\n---\n{text}\n")
    return Skill(name=name, description="Does it.", path=path, source="user")


def test_no_number_of_skills_makes_the_brief_long() -> None:
    skills = [
        Skill(name=f"s{number}", description="x" * 900, path=Path("/s"), source="user")
        for number in range(200)
    ]
    text = list_skills(skills)
    assert len(text) < BRIEF_CHARS + 400
    assert "more; the skill tool lists them" in text
    assert list_skills([]) == ""


def test_a_skill_is_shown_with_its_folder_and_files(tmp_path: Path) -> None:
    skill = make_skill(tmp_path.resolve())
    (skill.path.parent / "scripts").mkdir()
    (skill.path.parent / "scripts" / "fill.py").write_text("")
    shown = show_skill(skill, 10_000)
    scripts = Path("scripts", "fill.py")
    assert shown == f"[the skill pdf, in {skill.path.parent}; its files: {scripts}]\n\nSteps."


def test_a_long_skill_is_cut_and_says_so(tmp_path: Path) -> None:
    skill = make_skill(tmp_path.resolve(), text="x" * 20_000)
    shown = show_skill(skill, 5_000)
    assert len(shown) < 5_000
    assert f"read {skill.path} for the rest" in shown
