"""Conversations of a coding agent with facts planted in them, in nine languages.

Each fact is a text that must stand word for word in what the model is sent after a compaction. The texts
around the facts are filler. Equal arguments give equal conversations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)


@dataclass(frozen=True)
class Language:
    """The words of one language; ``{}`` stands for a name, a path or a number."""

    tasks: tuple[str, ...]
    rules: tuple[str, ...]
    decisions: tuple[str, ...]
    filler: str


LANGUAGES = {
    "English": Language(
        ("Please add {} to the importer", "The report wants {}; build it", "Why is {} slow? Speed it up"),
        (
            "Never touch {}.",
            "All amounts stay in cents, {} included.",
            "Hands off {}, another team owns it.",
            "From now on run {} before you say that you are done.",
            "No new dependencies besides {}.",
        ),
        (
            "I went with {} rather than {}",
            "Decision: {} instead of {}",
            "Turns out that {} was the cause, not {}",
        ),
        "so the next step is to look at how the parts fit together and what the tests expect of them",
    ),
    "hasty English": Language(
        ("can u get {} into the importer", "why is {} so slow??", "{} is a mess, split it up"),
        (
            "dont touch {}, its generated",
            "whenever you change {}, rerun the linter as well",
            "only ever read {}",
            "no new deps without asking me first ({} was the last one)",
        ),
        ("lets just do {} instead of {}", "going for {}, forget {}"),
        "so the next step is to look at how the parts fit together and what the tests expect of them",
    ),
    "Polish": Language(
        ("Dodaj {} do importu, proszę", "Raport potrzebuje {}", "Przyspiesz {}"),
        (
            "nie ruszaj {}, jest generowany",
            "Nigdy nie usuwaj {}.",
            "od teraz przed każdym commitem odpalaj {}",
        ),
        ("Wybrałem {} zamiast {}", "Przyczyna to {}, a nie {}"),
        "w następnym kroku patrzę, jak części do siebie pasują i czego oczekują od nich testy",
    ),
    "German": Language(
        ("Bitte baue {} in den Import ein", "Der Bericht braucht {}", "Mach {} schneller"),
        (
            "Fass {} niemals an.",
            "Verwende {} ab jetzt nur noch lesend.",
            "Du darfst {} nicht ändern.",
            "Keine neuen Abhängigkeiten außer {}.",
        ),
        ("Ich habe mich für {} statt {} entschieden", "Die Ursache war {}, nicht {}"),
        "als nächstes sehe ich mir an, wie die Teile zusammenpassen und was die Tests davon erwarten",
    ),
    "Spanish": Language(
        ("Añade {} al importador, por favor", "El informe necesita {}", "Haz que {} sea más rápido"),
        (
            "Nunca toques {}.",
            "No modifiques {} sin preguntar.",
            "A partir de ahora usa siempre {}.",
            "Sin dependencias nuevas salvo {}.",
        ),
        ("Decidí usar {} en lugar de {}", "La causa era {}, no {}"),
        "el siguiente paso es ver cómo encajan las piezas y qué esperan las pruebas de ellas",
    ),
    "French": Language(
        ("Ajoute {} à l'importateur", "Le rapport a besoin de {}", "Rends {} plus rapide"),
        (
            "Ne touche jamais à {}.",
            "Il faut toujours lancer {} avant de finir.",
            "Désormais, {} reste en lecture seule.",
            "Aucune dépendance sans mon accord, {} compris : c'est interdit.",
        ),
        ("J'ai choisi {} plutôt que {}", "La décision : {} au lieu de {}"),
        "la prochaine étape est de regarder comment les pièces s'assemblent et ce que les tests attendent",
    ),
    "Portuguese": Language(
        ("Adicione {} ao importador", "O relatório precisa de {}", "Deixe {} mais rápido"),
        (
            "Nunca altere {}.",
            "Não mexa em {}.",
            "Use sempre {} para as datas.",
            "De agora em diante, somente {}.",
        ),
        ("Escolhi {} em vez de {}", "Decidi por {}, não {}"),
        "o próximo passo é ver como as peças se encaixam e o que os testes esperam delas",
    ),
    "Russian": Language(
        ("Добавь {} в импорт", "Для отчёта нужен {}", "Сделай {} быстрее"),
        (
            "Никогда не трогай {}.",
            "Не меняй {} без спроса.",
            "Всегда запускай {} в конце.",
            "{} удалять нельзя.",
        ),
        ("Я решил взять {} вместо {}", "Выбрал {}, а не {}"),
        "следующий шаг посмотреть как части подходят друг к другу и чего от них ждут тесты",
    ),
    "Chinese": Language(
        ("请在导入器中加入 {}", "报告需要 {}", "让 {} 更快"),
        ("不要修改 {}。", "必须始终使用 {}。", "禁止删除 {}。", "除了 {} 以外不得添加新的依赖。"),
        ("决定采用 {} 而不是 {}", "根本原因是 {}，不是 {}"),
        "下一步看看各个部分如何配合以及测试对它们有什么期望",
    ),
    "Japanese": Language(
        ("インポーターに {} を追加してください", "レポートに {} が必要です", "{} を速くしてください"),
        ("{} は絶対に変更しないでください。", "必ず {} を使うこと。", "今後は {} のみ使ってください。"),
        ("{} を採用し、{} は使わないことに決めました", "原因は {} で、{} ではなく別でした"),
        "次は各部分がどう組み合わさるか、テストが何を期待しているかを見ます",
    ),
    "Korean": Language(
        ("가져오기에 {} 기능을 추가해 주세요", "보고서에 {} 항목이 필요합니다", "{} 속도를 높여 주세요"),
        ("{} 파일은 절대 건드리지 마세요.", "반드시 {} 형식을 사용하세요.", "{} 삭제는 금지입니다."),
        ("{} 방식을 선택했고 {} 방식은 버렸습니다", "{} 쪽으로 결정했습니다, {} 대신"),
        "다음 단계는 각 부분이 어떻게 맞물리는지 테스트가 무엇을 기대하는지 보는 것입니다",
    ),
}

ERRORS = (
    "ValueError: {} is not a valid offset",
    "error[E0308]: mismatched types in `{}`",
    "panic: runtime error: invalid memory address in {}",
    "FAILED tests/test_{}.py::test_total - assert 3 == 4",
    "fatal: pathspec '{}' did not match any files",
    'Error from server (NotFound): pods "{}" not found',
    "api/rows.go:4:7: undefined: {}",
    "cat: {}: 没有那个文件或目录",
    "bash: {} : commande introuvable",
    "npm error 404 Not Found - GET {}",
    "Fehler: Zugriff auf {} verweigert",
    "错误：找不到模块 {}",
)
N_PLAIN_ERRORS = 8
"""So many of them, the first, are failures also behind a pipe."""

WORDS = (
    *("parser", "ledger", "router", "cache", "session", "export", "billing", "search", "invoice", "column"),
    *("journal", "shard", "token", "window", "digest", "anchor", "outline", "reader", "writer", "signal"),
    *("bucket", "ticket", "render", "widget"),
)
KINDS = ("request", "rule", "decision", "changed", "read", "search", "command", "error", "number")


@dataclass
class Planted:
    """A conversation: *rounds* of turns, and for each round the facts in it as kind and text."""

    rounds: list[list[Turn]] = field(default_factory=list)
    facts: list[list[tuple[str, str]]] = field(default_factory=list)


def plant(seed: int, language: str, n_rounds: int, body_chars: int = 2_000) -> Planted:
    """Return a conversation of *n_rounds* prompts in *language*.

    Args:
        seed: decides everything that is random.
        language: a key of ``LANGUAGES``.
        n_rounds: the number of prompts, each with some tool calls and an answer.
        body_chars: the usual length of a tool's output.
    """
    planter = _Planter(random.Random(f"{seed} {language}"), LANGUAGES[language], body_chars)
    planted = Planted()
    for number in range(n_rounds):
        planter.facts = []
        planted.rounds.append([*planter.play(number)])
        planted.facts.append(planter.facts)
    return planted


class _Planter:
    def __init__(self, rng: random.Random, language: Language, body_chars: int) -> None:
        self.rng, self.language, self.body_chars = rng, language, body_chars
        self.facts: list[tuple[str, str]] = []
        self._n_calls = 0

    def play(self, number: int) -> Iterator[Turn]:
        """Yield the turns of one round."""
        rng = self.rng
        task = self.fact("request", f"{rng.choice(self.language.tasks)} (#{number})", self.name())
        parts = [task, self.filler(rng.randint(30, 200))]
        if rng.random() < (0.3 if number < 60 else 0.02):
            parts.append(self.fact("rule", rng.choice(self.language.rules), self.path()))
        if rng.random() < 0.3:
            parts.append(self.fact("number", "port {}", str(rng.randint(2_000, 60_000))))
        yield UserTurn((TextBlock("\n".join(parts)),))
        for _ in range(rng.randint(2, 5)):
            yield from self.step()
        yield AssistantTurn((TextBlock(f"OK. {self.filler(rng.randint(60, 300))}"),))

    def step(self) -> Iterator[Turn]:
        """Yield a reply with a tool call, and its result."""
        rng = self.rng
        text = self.filler(rng.randint(30, 160))
        if rng.random() < 0.25:
            text += "\n" + self.fact(
                "decision", rng.choice(self.language.decisions), self.name(), self.name()
            )
        name, given, body, is_error = self.call()
        self._n_calls += 1
        call_id = f"call-{self._n_calls}"
        yield AssistantTurn((TextBlock(text), ToolCallBlock(call_id, name, given)))
        yield ToolTurn((ToolResultBlock(call_id, body, is_error),))

    def call(self) -> tuple[str, dict[str, str], str, bool]:
        rng = self.rng
        body = self.code(rng.randint(self.body_chars // 2, self.body_chars * 3 // 2))
        match rng.choice(("read", "read", "edit", "write", "grep", "bash", "bash", "pipe")):
            case "read":
                return "read", {"path": self.fact("read", self.path())}, body, False
            case "edit":
                given = {"path": self.fact("changed", self.path()), "old_text": "x = 1", "new_text": "x = 2"}
                return "edit", given, "edited", False
            case "write":
                return "write", {"path": self.fact("changed", self.path()), "content": body}, "written", False
            case "grep":
                return "grep", {"pattern": self.fact("search", self.name()), "path": "src"}, body, False
            case "bash" if rng.random() < 0.6:
                command = self.fact("command", f"make check-{self.name()}")
                return "bash", {"command": command}, f"{body}\nexit code: 0", False
            case "bash":
                error = self.fact("error", rng.choice(ERRORS), self.name())
                return "bash", {"command": f"./run {self.name()}"}, f"{body}\n{error}", True
            case _:
                error = self.fact("error", ERRORS[rng.randrange(N_PLAIN_ERRORS)], self.name())
                return "bash", {"command": f"./run {self.name()} | tail -40"}, f"{body}\n{error}\n", False

    def fact(self, kind: str, template: str, *values: str) -> str:
        text = template.format(*values) if values else template
        self.facts.append((kind, text))
        return text

    def name(self) -> str:
        return f"{self.rng.choice(WORDS)}_{self.rng.choice(WORDS)}_{self.rng.randrange(16**4):04x}"

    def path(self) -> str:
        return f"src/{self.rng.choice(WORDS)}/{self.name()}.{self.rng.choice(('py', 'ts', 'rs', 'go'))}"

    def filler(self, n_chars: int) -> str:
        words = self.language.filler.split()
        text = ""
        while len(text) < n_chars:
            text += self.rng.choice(words) + " "
        return text[:n_chars].strip()

    def code(self, n_chars: int) -> str:
        lines = []
        while n_chars > 0:
            lines.append(
                f"    {self.rng.choice(WORDS)} = {self.rng.choice(WORDS)}({self.rng.randrange(999)})"
            )
            n_chars -= len(lines[-1]) + 1
        return "\n".join(lines)
