"""Which rules are found, and which plain sentences are left alone, in ten languages and in many phrasings."""

from __future__ import annotations

import pytest

from sidecar.window_budget.rules import find_statements

RULES = {
    "English": (
        "Never commit directly to main.",
        "Don't ever print to stdout in library code.",
        "Please do not reformat files you don't touch.",
        "All public functions must have docstrings.",
        "From now on use pnpm instead of npm.",
        "Only edit files under src/.",
        "Make sure every migration can be rolled back.",
        "We never mock the database.",
        "Leave the generated files alone.",
        "No emojis in commit messages.",
        "Keep lines at most 100 characters long.",
        "You must not change the wire format.",
        "Always ask before you delete anything.",
        "Avoid abbreviations in names.",
        "- always run make lint before committing",
        "Rule: one class per file.",
        "I want you to always answer in one paragraph.",
        "The API has to remain backwards compatible.",
        "Refrain from adding comments that repeat the code.",
        "Stick to the standard library.",
        "Under no circumstances touch the production config.",
        "Every endpoint requires a test.",
        "You may not push without my review.",
        "Going forward, write tests first.",
        "I'd prefer small commits.",
        "Nobody should ever edit schema.sql by hand, so don't.",
    ),
    "German": (
        "Committe niemals direkt auf main.",
        "Bitte ändere die öffentliche API nicht.",
        "Ab sofort nur noch pnpm verwenden.",
        "Alle Funktionen müssen Docstrings haben.",
        "Keine Emojis in Commits.",
        "Du sollst nie ungefragt löschen.",
        "Achte darauf, dass die Tests grün bleiben.",
        "Verwende ausschließlich UTC.",
    ),
    "Spanish": (
        "Nunca hagas commit en main.",
        "No toques los archivos generados.",
        "Siempre ejecuta los tests antes de terminar.",
        "A partir de ahora usa pnpm.",
        "Todas las funciones deben usar UTC.",
        "Evita las abreviaturas.",
        "Sin dependencias nuevas.",
    ),
    "French": (
        "Ne commite jamais sur main.",
        "Ne touche pas aux fichiers générés.",
        "Il faut toujours lancer les tests.",
        "Désormais, utilise pnpm.",
        "Évite les abréviations.",
        "Les dates doivent être en UTC.",
    ),
    "Portuguese": (
        "Nunca faça commit na main.",
        "Não altere os arquivos gerados.",
        "Sempre rode os testes antes de terminar.",
        "De agora em diante use pnpm.",
        "É proibido apagar migrações.",
    ),
    "Italian": (
        "Non toccare i file generati.",
        "Usa sempre UTC per le date.",
        "D'ora in poi usa pnpm.",
        "È vietato cancellare le migrazioni.",
        "Non fare mai commit su main.",
    ),
    "Russian": (
        "Никогда не коммить в main.",
        "Не трогай сгенерированные файлы.",
        "Всегда запускай тесты перед завершением.",
        "Отныне используй pnpm.",
        "Запрещено удалять миграции.",
        "Все даты должны быть в UTC.",
    ),
    "Chinese": (
        "不要直接提交到 main。",
        "禁止修改生成的文件。",
        "所有时间必须使用 UTC。",
        "以后都用 pnpm。",
        "提交前务必运行测试。",
        "别改动公共接口。",
    ),
    "Japanese": (
        "mainに直接コミットしないでください。",
        "生成されたファイルは変更しないこと。",
        "日時は必ずUTCを使ってください。",
        "今後はpnpmを使ってください。",
        "テストを削除してはいけません。",
    ),
    "Korean": (
        "main에 직접 커밋하지 마세요.",
        "생성된 파일은 절대 수정하지 마세요.",
        "시간은 항상 UTC를 사용하세요.",
        "앞으로는 pnpm을 사용하세요.",
        "마이그레이션 삭제는 금지입니다.",
    ),
}

NO_RULES = (
    "I don't know why it fails.",
    "That must have been the cache.",
    "There must be a bug in the parser.",
    "The build doesn't work anymore.",
    "It never worked on Windows.",
    "I've always wondered what this does.",
    "No problem, go on.",
    "No, the other one.",
    "Never mind.",
    "Don't worry about it.",
    "You don't need to look at it now.",
    "I'll make sure to test it later.",
    "Add a test to make sure that it works.",
    "Why does it always return None?",
    "Does the API have to be public?",
    "The function returns at most three rows.",
    "We don't have the logs.",
    "Please fix the failing test and run it again.",
    "The parser cannot be imported.",
    "It seems to always crash on start.",
    "Der Test schlägt leider fehl.",
    "Kannst du das Log ansehen?",
    "El servidor no arranca.",
    "Añade una prueba para el parser.",
    "Le serveur ne démarre plus ce matin, regarde les logs.",
    "O servidor não inicia.",
    "Il server non parte.",
    "Сервер не запускается.",
    "服务器启动失败了，看一下日志。",
    "サーバーが起動しません。",
    "서버가 시작되지 않습니다.",
)


def is_rule(sentence: str) -> bool:
    return any(each.kind == "rule" for each in find_statements(sentence))


@pytest.mark.parametrize("language", RULES)
def test_nine_rules_in_ten_are_found(language: str) -> None:
    missed = [sentence for sentence in RULES[language] if not is_rule(sentence)]
    assert len(missed) <= len(RULES[language]) // 10, missed


def test_one_plain_sentence_in_ten_at_most_is_taken_for_a_rule() -> None:
    taken = [sentence for sentence in NO_RULES if is_rule(sentence)]
    assert len(taken) <= len(NO_RULES) // 10, taken
