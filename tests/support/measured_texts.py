"""Texts of every class of content, with the tokens that the tokenizer o200k_base makes of each.

All of them were written for this test; the counts were made once, with a tokenizer that is no part of the
project.
"""

# ruff: noqa: E501  # a table of texts

from __future__ import annotations

import base64
import hashlib
import json
from typing import Final

_CODE: Final = '''\
def merge_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return *ranges* in order and joined."""
    merged: list[list[int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return tuple(Range(*each) for each in merged)
'''
_TYPESCRIPT: Final = """\
export async function fetchOrders(userId: string, options?: FetchOptions): Promise<Order[]> {
  const response = await client.get(`/api/v2/users/${userId}/orders`, { ...defaults, ...options });
  if (!response.ok) {
    throw new HttpError(response.status, await response.text());
  }
  return (await response.json()).items.filter((item: Order) => item.deletedAt === null);
}
"""
_RUST: Final = """\
impl<'a> Parser<'a> {
    pub fn next_token(&mut self) -> Result<Option<Token>, ParseError> {
        while let Some(&c) = self.chars.peek() {
            match c {
                '(' | ')' => { self.chars.next(); return Ok(Some(Token::Paren(c))); }
                c if c.is_ascii_digit() => return self.number().map(Some),
                _ => { self.chars.next(); }
            }
        }
        Ok(None)
    }
}
"""
_DIFF: Final = """\
--- a/src/queue.py
+++ b/src/queue.py
@@ -41,7 +41,9 @@ class Queue:
     def take(self) -> Job | None:
-        return self._jobs.pop(0)
+        if not self._jobs:
+            return None
+        return self._jobs.popleft()
"""
_TRACEBACK: Final = """\
Traceback (most recent call last):
  File "/srv/app/worker.py", line 88, in run
    self.store.commit(batch)
  File "/srv/app/store.py", line 213, in commit
    raise StoreError(f"batch {batch.id} was committed twice")
app.errors.StoreError: batch 4711 was committed twice
"""


def _digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def _json(indent: int | None) -> str:
    rows = [
        {"id": n * 37, "name": f"order-{n}", "isActive": n % 2 == 0, "score": n / 7, "tags": ["ci", "build"]}
        for n in range(12)
    ]
    return json.dumps(rows, indent=indent)


TEXTS: Final = {
    "English": "Please look at the importer first. It reads a whole file into memory before it writes a single "
    "row, so a large upload makes the server slow for everybody. Read it in parts, keep the order of the rows, "
    "and tell me how long a hundred thousand rows take afterwards. Never change the format of the report.",
    "English, short": "Run the tests again and fix what is still failing, please. Then commit it.",
    "German": "Der Parser liest zuerst die ganze Datei und sucht danach nach den Zeilenenden. Bei großen "
    "Dateien dauert das sehr lange, deshalb möchte ich, dass du ihn so umbaust, dass er die Datei stückweise "
    "liest. Ändere nichts an der Schnittstelle, und schreibe bitte für jede Änderung einen Test.",
    "French": "Le programme lit d'abord tout le fichier, puis il cherche les fins de ligne. Avec de gros "
    "fichiers cela prend beaucoup de temps, c'est pourquoi je voudrais que tu le lises par morceaux. Ne change "
    "rien à l'interface, et ajoute un test pour chaque correction que tu fais.",
    "Spanish": "El programa lee primero todo el archivo y después busca los finales de línea. Con archivos "
    "grandes tarda mucho, así que quiero que lo leas por partes. No cambies nada de la interfaz y escribe una "
    "prueba para cada corrección que hagas.",
    "Portuguese": "O programa lê primeiro o arquivo inteiro e depois procura os fins de linha. Com arquivos "
    "grandes isso demora muito, então quero que você leia por partes. Não mude nada na interface e escreva um "
    "teste para cada correção que fizer.",
    "Italian": "Il programma legge prima tutto il file e poi cerca le fini di riga. Con file grandi ci mette "
    "molto tempo, perciò vorrei che lo leggessi a pezzi. Non cambiare nulla dell'interfaccia e scrivi un test "
    "per ogni correzione che fai.",
    "Polish": "Program najpierw czyta cały plik, a potem szuka końców linii. Przy dużych plikach trwa to "
    "bardzo długo, dlatego chcę, żebyś czytał go po kawałku. Nie zmieniaj niczego w interfejsie i napisz test "
    "do każdej poprawki.",
    "Turkish": "Program önce bütün dosyayı okuyor, sonra satır sonlarını arıyor. Büyük dosyalarda bu çok uzun "
    "sürüyor, bu yüzden dosyayı parça parça okumanı istiyorum. Arayüzde hiçbir şeyi değiştirme ve her düzeltme "
    "için bir test yaz.",
    "Vietnamese": "Chương trình đọc toàn bộ tệp trước rồi mới tìm các dấu xuống dòng. Với tệp lớn việc này rất "
    "lâu, vì vậy tôi muốn bạn đọc từng phần. Đừng thay đổi giao diện và hãy viết kiểm thử cho mỗi lần sửa.",
    "Russian": "Программа сначала читает весь файл, а потом ищет концы строк. С большими файлами это занимает "
    "очень много времени, поэтому я хочу, чтобы ты читал его по частям. Ничего не меняй в интерфейсе и напиши "
    "тест для каждого исправления.",
    "Ukrainian": "Програма спочатку читає весь файл, а потім шукає кінці рядків. З великими файлами це триває "
    "дуже довго, тому я хочу, щоб ти читав його частинами. Нічого не змінюй в інтерфейсі й напиши тест для "
    "кожного виправлення.",
    "Greek": "Το πρόγραμμα διαβάζει πρώτα όλο το αρχείο και μετά ψάχνει τα τέλη των γραμμών. Με μεγάλα αρχεία "
    "αυτό παίρνει πολύ χρόνο, γι' αυτό θέλω να το διαβάζεις τμηματικά.",
    "Hebrew": "התוכנית קוראת קודם את כל הקובץ ואחר כך מחפשת את סופי השורות. בקבצים גדולים זה לוקח הרבה זמן, "
    "ולכן אני רוצה שתקרא אותו בחלקים.",
    "Arabic": "يقرأ البرنامج الملف كله أولا ثم يبحث عن نهايات الأسطر. مع الملفات الكبيرة يستغرق ذلك وقتا "
    "طويلا، لذلك أريد أن تقرأه على أجزاء. لا تغير شيئا في الواجهة واكتب اختبارا لكل إصلاح.",
    "Hindi": "कार्यक्रम पहले पूरी फ़ाइल पढ़ता है और फिर पंक्तियों के अंत ढूँढता है। बड़ी फ़ाइलों में इसमें बहुत समय लगता "
    "है, इसलिए मैं चाहता हूँ कि आप इसे टुकड़ों में पढ़ें। इंटरफ़ेस में कुछ मत बदलिए।",
    "Thai": "โปรแกรมอ่านไฟล์ทั้งหมดก่อนแล้วจึงค้นหาจุดจบของบรรทัด ไฟล์ใหญ่ใช้เวลานานมาก ดังนั้นฉันอยากให้คุณอ่านทีละส่วน "
    "อย่าเปลี่ยนส่วนติดต่อผู้ใช้",
    "Chinese": "程序先把整个文件读进内存，然后再查找换行符。文件很大的时候要花很长时间，所以我希望你分段读取。"
    "不要修改接口，每次修复都要写一个测试，最后告诉我十万行需要多久。",
    "Japanese": "プログラムは最初にファイル全体を読み込み、それから行末を探します。大きなファイルでは"
    "とても時間がかかるので、少しずつ読むようにしてください。インターフェースは変更しないで、修正ごとにテストを"
    "書いてください。",
    "Korean": "프로그램은 먼저 파일 전체를 읽은 다음 줄 끝을 찾습니다. 큰 파일에서는 시간이 아주 오래 걸리므로 조금씩 "
    "읽도록 바꿔 주세요. 인터페이스는 바꾸지 말고 수정할 때마다 테스트를 작성해 주세요.",
    "emoji": "Shipped 🚀🚀 tests are green ✅✅✅ but the docs ❌ are missing 😅 please look 👀🙏 and then we celebrate 🎉🎊🥳",
    "Python": _CODE,
    "TypeScript": _TYPESCRIPT,
    "Rust": _RUST,
    "diff": _DIFF,
    "traceback": _TRACEBACK,
    "JSON": _json(None),
    "JSON, indented": _json(2),
    "log": "\n".join(
        f"2026-11-{10 + n} 10:{n * 7 % 60:02}:{n * 13 % 60:02},{n * 97 % 1000:03} INFO [worker-{n % 4}] request "
        f"{n * 7919} from 10.0.{n}.{n * 3} took {n * 17 % 90} ms"
        for n in range(10)
    ),
    "test run": "\n".join(
        f"tests/test_orders.py::test_total_{n} PASSED      [{n * 9:3}%]" for n in range(10)
    ),
    "table": "\n".join(f"│ {name:<20} │ {n * 31:>8} │" for n, name in enumerate(("rows", "bytes", "errors"))),
    "CSV": "\n".join(
        f"{n},item {n},{n * 3.25:.2f},2026-0{n % 9 + 1}-1{n % 10},{n * 40961}" for n in range(12)
    ),
    "numbers": " ".join(str(n * n * 7919 + n) for n in range(3, 60)),
    "hashes": "\n".join(f"{_digest(n).hex()}  dist/part-{n}.tar.gz" for n in range(6)),
    "git log": "\n".join(
        f"{_digest(n).hex()[:8]} {title}"
        for n, title in enumerate(
            ("parser: read lines in parts", "add a test", "docs: say how", "bump to 1.2.3")
        )
    ),
    "base64": base64.b64encode(b"".join(map(_digest, range(12)))).decode(),
    "UUIDs": "\n".join(
        "-".join(part for part in (h[:8], h[8:12], h[12:16], h[16:20], h[20:32]))
        for h in (_digest(n).hex() for n in range(8))
    ),
    "paths": "\n".join(
        f"packages/web-client/src/components/{name}/{name}View.test.tsx"
        for name in ("Order", "Invoice", "Account", "Shipment")
    ),
    "shell": "cd /srv/app && git fetch origin && git rebase origin/main && npm ci --no-audit && "
    "npx tsc --noEmit -p tsconfig.json 2>&1 | tail -n 40; echo exit=$?",
    "Markdown": "## Steps\n\n1. **Read** the file in parts.\n2. Keep the *order* of rows.\n\n"
    "| name | rows |\n|------|-----:|\n| first | 10 |\n| second | 2,000 |\n\n```sh\nmake test\n```\n",
    "ruler": "=" * 80 + "\n" + "-" * 80 + "\nsummary\n" + "*" * 40,
}
"""A text of each class."""

TOKENS: Final = {
    "English": 64,
    "English, short": 17,
    "German": 64,
    "French": 59,
    "Spanish": 49,
    "Portuguese": 48,
    "Italian": 58,
    "Polish": 65,
    "Turkish": 60,
    "Vietnamese": 51,
    "Russian": 59,
    "Ukrainian": 71,
    "Greek": 55,
    "Hebrew": 45,
    "Arabic": 54,
    "Hindi": 57,
    "Thai": 52,
    "Chinese": 56,
    "Japanese": 68,
    "Korean": 54,
    "emoji": 36,
    "Python": 100,
    "TypeScript": 87,
    "Rust": 102,
    "diff": 69,
    "traceback": 73,
    "JSON": 507,
    "JSON, indented": 664,
    "log": 378,
    "test run": 172,
    "table": 26,
    "CSV": 226,
    "numbers": 218,
    "hashes": 279,
    "git log": 43,
    "base64": 342,
    "UUIDs": 188,
    "paths": 55,
    "shell": 49,
    "Markdown": 56,
    "ruler": 7,
}
"""The tokens of each text."""
