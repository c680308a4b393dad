"""The words and the grammar of rules by language: orders, prohibitions, habits, and their look-alikes.

A rule is known by one of four things. Words that mean "always", "never", "only" or "must". A negated
imperative, by the form that a language has for it: "no" and a subjunctive in Spanish, "non" and an infinitive
in Italian, "не" or "nie" and an imperative in Russian or Polish, a sentence that ends in a plain form in
Japanese. An opening that demands or bans ("make sure", "no", "sin", "без"). And fixed orders ("hands off").

A sentence with such words is no rule when it reports: the words of somebody else, a thing that never
happened, a thing that its writer does not know or does not worry about. :data:`REPORTS` has these forms.

All patterns expect text in lower case; every repetition is bounded.
"""

from __future__ import annotations

ENGLISH_ORDERS = (
    r"always (?!been|had|has|have been|was|is|get|got|seen|works?|happens?)"
    r"|never (?!mind|work|happen|seen|saw|got|had|been|heard|knew|thought|tried|used to)"
    r"|(?:do not|don't|dont) (?!need|have to|think|know|see|worry|mind|understand|want|remember|believe"
    r"|forget"
    r"|recall|hesitate|get (?:me|it|this|why|how)|we |i |you )\w"
    r"|avoid |refrain from|prefer |only (?:use|touch|edit|change|write|run|modify|add|import|log|commit|push"
    r"|call|read|work|test|mock|in|on|with) |use only|from now on|going forward|keep in mind|hands off"
    r"|remember (?:to|that) |stick (?:to|with) |only ever |stay (?:out of|away from) |keep (?:out of"
    r"|away from|clear of) "
    r"|(?:whenever|every time|each time|any time|anytime) (?:you|we) .{1,80}, \w|no matter what"
    r"|leave .{1,40} (?:alone|as it is|untouched)|nothing but "
    r"|(?:house |ground |hard )?(?:rule|constraint|convention|guideline|requirement)s?(?: \d+)?(?: is|: )"
)
OPENINGS = (
    r"make sure (?!(?:this|it|they|these|those)\b)|ensure (?!(?:this|it|they|these|those)\b)"
    r"|(?:no|keinen?|keine|kein|absolutely no|sin|nada de|ningun\w{0,2}|ningún|sans|pas de|aucune?"
    r"|surtout pas|sem|nenhum\w?"
    r"|niente|nessun\w?|senza|без|никаких|никакого|bez|żadn\w{1,4}|geen|inga|ingen|nic"
    r"|bitte kein\w{0,2}) (?!problem|worries|idea|need|thanks|luck"
    r"|doubt|remove|rush|hurry|clue|matter|ahnung|sorge|eile|problem|idea |duda|souci|panique|stress|quoi"
    r"|chance|проблем"
    r"|add |it |this |that |i |we |you |just|make|do |let|please|not |one |longer"
    r"|.{0,60}\b(?:modified|removed|added|applied|needed|required|found|changed|available)\b)\w"
)
"""Words that set a rule only where a sentence begins with them."""

ENGLISH_RULES = (
    r"(?<!there )must(?:n't| not)?(?! have (?:been|left|got|had|\w+ed|forgotten)\b| be (?:\{\}|'|an? "
    r"|some\w* "
    r"|wrong|mistaken|the (?:case|reason|cause|problem)))"
    r"|should (?:not|never|always|only)(?! happen| have| be the case)|shouldn't|shall"
    r"|you may not|no one may|it may not|they may not|we may not|may (?:only|never)"
    r"|(?<!not )has to (?:stay|remain|be (?!a |some))|have to (?:stay|remain|be (?!a |some))|is to (?:stay"
    r"|remain)"
    r"|are to (?:stay|remain)|needs? to (?:stay|remain)|stays? (?:under|below|above|over|within|in)"
    r"|we (?:always|never) |the team (?:always|never) |everyone (?:always|never) "
    r"|we (?:don't|do not) (?:use|allow|want|commit|accept|merge|ship|do)"
    r"|i(?:'d| would)?(?: really| rather| much)? prefer|i (?:don't|do not) want (?:you|any|to be|it)"
    r"|want to avoid|i want (?:all|every|each) |as a rule|at all times|going forward|from now on|in no case"
    r"|(?:you're|you are|we're|is|are) not (?:allowed|permitted|supposed) to|i want you to (?:always"
    r"|never|only)|forbidden|off[- ]limits|not allowed"
    r"|under no circumstances"
    r"|without (?:touching|changing|adding|breaking|asking)|unless i |use .{1,60}, (?:not|no [a-z]+)"
    r"|all .{1,60} (?:stay|remain|are (?:always|never))|every .{1,60} (?:(?:stay|remain|require)s"
    r"|is (?:always|never))|each .{1,60} (?:stay|remain"
    r"|require)s"
    r"|(?:keep|use|write|limit|allow|take|make|give|have|with|within) .{0,80}(?:at (?:most|least)"
    r"|no (?:more|longer|fewer|less|larger|bigger) than|(?:under|below|within) \d+)"
)
GERMAN_RULES = (
    r"immer|stets|nie|niemals|nur (?:auf|mit|per|über|noch) |(?:auf )?gar keine?n? |künftig|in zukunft"
    r"|finger weg|fernhalten"
    r"|lass\w{0,3} .{1,60}in (?:ruhe|frieden)|sorg\w{0,2} dafür|halte? dich .{0,60}(?:fern|an)\b"
    r"|bleib\w{0,2} (?:so )?wie (?:es|er|sie) (?:ist|sind)"
    r"|(?:bitte )?nicht (?:\S{1,60} ){0,3}[^\W\d]{2,16}(?:en|ern|eln)(?= *(?:\Z|[,.;!\n]|\w+\Z|weil"
    r"|da |und ))|nur noch|ab (?:jetzt|sofort)|auf keinen fall|unter keinen umständen|verboten"
    r"|nicht erlaubt|darf(?:st|en)? .{0,60}(?:nicht|nie|keine?\w?|nur)|muss|müssen"
    r"|soll(?:st|en|te)? (?:nicht|nie|immer|nur|kein\w{0,2})|vermeide\w{0,2}|achte darauf|ausschließlich"
    r"|höchstens|mindestens"
    r"|(?:fass|rühr|änder|lösch|verwend|benutz|nutz|schreib|füg)e?n? .{1,60}(?:nicht|keine?\w?|niemals|nie)"
    r"|(?:bitte )?(?:nicht|keine?n?) .{1,60}(?:anfassen|ändern|löschen|verwenden|benutzen|hinzufügen)"
)
ROMANCE_RULES = (
    r"nunca|jamás|siempre|a partir de ahora|prohibido|evita\w{0,2}|asegúrate|no (?:debes?|deben|puede[sn]?"
    r"|se (?:debe|puede)|uses|toques|cambies|modifiques|borres|añadas|agregues|escribas|hagas|subas|ejecutes)"
    r"|deben? (?:ser|estar|usar|quedar|seguir)|como (?:máximo|mínimo)|sin (?:tocar|cambiar|modificar|añadir)"
    r"|sol(?:o|amente) (?:usa|utiliza)|usa (?:solo|solamente|únicamente)"
    r"|no se (?:toca|usa|cambia|modifica|sube|borra|permite)n?|no está permitido|no (?:puede|pueden"
    r"|podemos|debe|deben)|deja .{1,60}(?:como está|en paz|quieto)"
    r"|de ahora en (?:adelante|más)|desde ahora|en adelante|de ningún modo|bajo ningún concepto"
    r"|s[oó]l(?:o|amente) en |únicamente|aseg[uú]r\w{1,6}|procura\w? |mantente lejos|pregunta(?:me)? antes"
    r"|jamais|toujours|désormais|à partir de maintenant|interdit\w{0,2}|évite[rz]?|assure-toi|assurez-vous"
    r"|il (?:ne )?faut|(?:doit|doivent|dois|devez) (?:être|rester|toujours|utiliser|pas)|au (?:plus|moins) \d"
    r"|uniquement|sans (?:toucher|modifier|changer|ajouter)"
    r"|veille[rz]? à|fai(?:s|tes) en sorte|laisse[rz]? .{1,60}(?:tranquilles?|tel quel|comme)"
    r"|reste[rz]? loin|dorénavant|seulement|il est interdit|rien dans|reste tel"
    r"|n'\w{2,20} (?:pas|rien|aucun\w{0,2})|à chaque fois|avant chaque|après chaque"
    r"|demande[rz]?(?:-moi)? avant|ne (?:doit|doivent|peut|peuvent)"
    r"|sempre|não (?:deve|pode|use|toque|altere|mude|modifique|apague|adicione|escreva|faça|mexa)|proibido"
    r"|de agora em diante|a partir de agora|certifique-se|evite|somente|no (?:máximo|mínimo)|nunca mais"
    r"|daqui (?:pra|para)(?: a)? frente|não é permitido|é proibido|garanta|garante"
    r"|deix[ae] .{1,60}(?:quiet\w|em paz|como está)|s[oó] em |apenas em|soment\w"
    r"|pergunt[ea](?:-me)? antes|fi(?:que|ca) longe|de jeito nenhum"
    r"|antes de cada|cada vez que|siempre que|sempre que|ogni volta che|prima di ogni|non è (?:permesso"
    r"|consentito|ammesso)|non (?:si (?:tocca|usa|deve|può|modifica)|va|vanno) "
    r"|non (?:[^\W\d]{2,4} )?[^\W\d]{2,16}(?:are|ere|ire|rre|arl[oaie]|erl[oaie]|irl[oaie])|lascia(?:re"
    r"|te)? .{0,60}(?:stare|perdere|così|in pace|com'è)|da (?:ora|adesso|oggi)(?: in poi)?|soltanto"
    r"|esclusivamente|solo in |fai in modo|assicura\w{1,4}|in nessun caso|chiedi(?:mi)? prima"
    r"|mai|d'ora in poi|vietato|assicurati|non (?:devi|deve|usare|toccare|modificare|cambiare|aggiungere)"
)
RUSSIAN_RULES = (
    r"никогда|всегда|нельзя|обязательно|запрещ\w{1,6}|отныне|с этого момента|избегай\w{0,2}|убедись"
    r"|ни в коем случае|ни при каких|впредь|следи(?:те)?,? чтобы|чтобы .{1,60}(?:всегда|никогда|не )"
    r"|не должн\w{1,2}|только (?:на|в|через|по) |оставь(?:те)? .{1,60}(?:как есть|в покое)|держись"
    r"|исключительно|спрашивай\w{0,2} (?:прежде|перед)"
    r"|не (?!пережива|волнуй|парься|бойся|беспоко|знай)[^\W\d]{1,18}(?:[ауяю]й(?:те|ся|тесь)?"
    r"|[бвгджзклмнпрстфхцчшщ]и(?:те|сь)|[^еиыа]шь(?:те)?|[вдн]ь(?:те)?)"
    r"|не (?:более|менее|надо|нужно|трогай\w{0,2}|меняй\w{0,2}|используй\w{0,2}|добавляй\w{0,2}"
    r"|удаляй\w{0,2}|изменяй\w{0,2}|пиши\w{0,2}|должн\w{1,3})|должн[аоы]? (?:быть|остаться|оставаться)"
    r"|используй\w{0,2} только|только .{1,40}(?:использ\w{1,8}|разреш\w{1,6})"
)
ASIAN_RULES = (
    r"不要|不得|不可|不许|不准|不能|禁止|务必|必须|一律|始终|总是|永远|绝不|切勿|请勿|只能|只用|仅限|仅使用"
    r"|以后(?:每|请|一律|只|不|要|必)|今后|往后|只准|只许|只允许|不应该?(?:再|直接|在|把)|不允许|绝对不"
    r"|保持.{0,12}(?:不变|原样|兼容|以内|以下)"
    r"|.{1,40}远点|之前(?:都)?(?:要|先|必)(?!看)"
    r"|从现在(?:起|开始)|以后都|避免|确保|最多|至少|不超过|别[改动用删碰写加]"
    r"|ないで(?:。|！|!|\s|\Z|ね|よ|く?ださい|下さい|ほしい|欲しい)|(?:[うくぐすつぬぶむる]|ない"
    r"|ぬ)こと(?:。|！|\s|\Z|[（(])|ないように(?:。|！|\s"
    r"|\Z|し|お願い)|[うくすつぬむる]な(?:。|！|!|よ|\s|\Z)|ではいけ|ではなら|ちゃ(?:だめ|ダメ|いけ)"
    r"|のみ(?:。|\s|\Z|で|と)|厳禁|(?:許可|許容)(?:しません|されません|されていません)|毎回|保って"
    r"|保つ(?:こと|よう)|(?:そのまま|現状のまま)(?:に|で)"
    r"|前に(?:は)?(?:必ず|聞|確認|毎)"
    r"|しないで|するな|てはいけ|てはなら|ないでください|ないこと|べきではな|なければな|禁止|必ず|常に"
    r"|絶対に|決して"
    r"|のみ使|だけを?使|今後は|これからは|避けて|触らない|変更しない"
    r"|지 ?(?:마(?!다|크)|말(?! ?라| ?랬|까| ?걸))|로만(?: |$|\.|써|사용|작성)|만 (?:써|쓰|사용|허용"
    r"|작성)|할 것(?:\.|$|\s)|말 것"
    r"|그대로 (?:둬|두|유지)|허용(?:되지|하지) 않|이제부터|앞으로|늘 |매번|(?:면|서는) 안 ?(?:됩|돼|된"
    r"|되)|(?:해|어|아)야 (?:합니다|한다|해|돼|됩)"
    r"|하지 ?마|지 ?마세요|지 ?말|금지|반드시|항상|절대|결코|앞으로는?|지금부터|만 사용|오직"
    r"|해야 ?(?:한다|합니다|해)"
    r"|안 ?됩니다|안 ?돼"
)
POLISH_RULES = (
    r"nigdy|zawsze|nie wolno|nie mo(?:że|gą|żesz) (?!być )|zakaz|zabron\w{1,5}|pod żadnym pozorem"
    r"|wyłącznie|unikaj\w{0,4}"
    r"|nie (?!martw|przejmuj)[^\W\d]{1,16}(?:[aeiuyó]j|ób|[aeiuyó]jcie|óbcie)|od (?:teraz|tej pory|dziś"
    r"|dzisiaj)"
    r"|tylko (?:po|przez|w|na)|upewnij się|dopilnuj\w{0,4}|zadbaj\w{0,4}|mus(?:i|zą|isz)"
    r"|obowiązkow\w{1,2}|przed każdym"
    r"|(?:zostaw|trzymaj) .{1,60}(?:w spokoju|tak jak jest|z dala)|należy|pytaj (?:zanim|przed)"
    r"|za każdym razem"
)
DUTCH_AND_NORDIC_RULES = (
    r"nooit|altijd|verboden|vanaf nu|mag(?:en)? (?:niet|nooit|geen|alleen)|moet(?:en)? (?:altijd|blijven"
    r"|zijn)"
    r"|blijf (?:van|uit)|zorg (?:er ?voor )?dat|vermijd|uitsluitend|aldrig|alltid|altid|får (?:inte"
    r"|aldrig|bara)"
    r"|från och med nu|undvik|endast|se till att|må (?:ikke|aldri|aldrig)|rör inte|ikke rør"
)
TURKISH_RULES = r"asla|sakın|her zaman|daima|yasak\w{0,3}|mutlaka|bundan (?:sonra|böyle)|yalnızca"

NEGATED_ORDERS = (
    r"no (?!tienes|puedes|sabes|debes|necesitas|entiendes|eres|estás|has|vas|haces|ves|crees|quieres|hay"
    r"|es |está|las |los "
    r"|te |más |nos |además|apenas)(?:l[aeo]s? |me )?[^\W\d]{2,16}[ea]s\b(?! (?:are|is|were|found|have"
    r"|needed)\b)"
    r"|não (?!sei|tem|há|é |está|precis|acho|foi|era |se |consigo|entend|funciona|vejo|quero|importa"
    r"|existe|esquent|deve|pode"
    r"|tenho|dá|mostra|aparece|passa |roda |compila)[^\W\d]{2,16}(?:[ea]|em|am)\b"
    r"|ne (?!(?:sais|vois|pense|crois|comprends|marche|fonctionne)\b)[^\W\d]{2,16}(?:e|s|ez|ons|x|is|ds"
    r"|ts) (?:\S{1,60} )?(?:pas|plus|jamais|rien|aucun\w{0,2})\b"
)
"""Negated imperatives whose form may be another one as well: an order only where a clause begins."""

BARE_NEGATIONS = r"(?:pas|jamais|rien) (?=\S)"
"""French as it is spoken: an order only behind one verb at the beginning of a clause ("touche pas à ...")."""

BARE_VERB = (
    r"(?:\A|\n|[,.;!] |\b(?:et|mais|stp|svp|surtout) )\W{0,4}(?!(?:sais|suis|peux|vois|comprends|pense"
    r"|marche|fonctionne|est|sert|fais[- ]t|a|ai|as"
    r"|t'inquiète|inquiète|souvi\w+|crois|es)\b)[^\W\d]{2,16}(?:e|s|ez|ons)(?:[- ](?:moi|y|le|la|les"
    r"|lui))? \Z"
)

REPORTS = (
    r"\b(?:doesn't|does not|isn't|is not|didn't|did not|wasn't|was not) (?:adher|follow|respect|obey|match)|"
    # What somebody else said, what never happened, what is not known: by language.
    r"(?<!\bi )(?<!i've )(?<!i have )(?<!as )\b(?:said|told (?:us|me|him|them|everyone)|says that"
    r"|mentioned|asked (?:us|me) (?:not|to)|claims?|heard that|used to)\b"
    r"|\b(?:no idea|not sure|no clue|who knows|i (?:don't|do not|never) (?:know|think|see|understand"
    r"|understood|get)|i wonder|what if|worr(?:y|ies)"
    r"|never (?:worked|works|understood|had|got|saw|did|was|were|came|went|ran|made|knew|happens|happened"
    r"|fails|failed|been|seen)"
    r"|(?:it|that|this|he|she|they|which|who|and|still|but|almost|nearly|seems to) (?:always"
    r"|never) [a-z]+(?:s|ed)\b|(?:always|never) (?:fails|crashes|happens|returns|hangs|breaks|times)"
    r"|haven't|hasn't|hadn't|didn't|there (?:is|are|was|were)(?:n't| no\b)|there's no|can't (?:we|you|i)"
    r"|must (?:have been|be a reason))\b"
    r"|\b(?:mein(?:t|te|ten)|sagt(?:e|en)?|gesagt|gebeten|erzählt\w{0,3}|behauptet\w{0,2}|glaub[et]"
    r"|laut)\b|\b(?:keine? (?:ahnung|sorgen?|eile|problem|idee)|weiß nicht|noch nie"
    r"|(?:hab|habe|hat|haben|hatte|ist|war|ging|lief|wurde|gab) .{0,60}\b(?:nie|nicht|immer"
    r"|ewig)\b(?! (?:mehr )?(?:erlaubt|gestattet|zulässig)))"
    r"|\b(?:dij(?:o|eron)|dice[ns]?|pidi(?:ó|eron)|coment[óo]|contó|dicho)\b|\b(?:ni idea|no s[ée]"
    r"|no estoy segur\w|no te preocupes|no (?:hay|había|creo|importa|pasa nada)\b|nunca (?:he|ha|han|había)\b"
    r"|nunca \w{1,20}(?:[éóí]|aba|ía|aron|ieron)\b)"
    r"|\b(?:a|ont|avait|m'a|nous a) (?:dit|demandé|expliqué)\b|\b(?:disait|dit) (?:de|que)\b"
    r"|\b(?:aucune idée|pas sûre?|je (?:ne )?sais|(?:t'|vous )inquiète\w*|il n'y a|y a pas|n'(?:a|ai|as"
    r"|ont|avons|avait|était)\b"
    r"|n'arrive)"
    r"|\b(?:disse(?:ram)?|falou|pediu|contou|comentou)\b|\b(?:não (?:sei|se preocupe|tem|há|acho)\b"
    r"|nunca \w{1,20}(?:ou|eu|iu|[ae]i|ava|ia|aram)\b|faz tempo)"
    r"|\b(?:ha|hanno|aveva) (?:detto|chiesto)\b|\b(?:ha detto|ci ha chiesto|non (?:so|preoccup\w+|c'è"
    r"|ci sono|credo|sono sicur\w)\b|non (?:ho|ha|hanno|abbiamo) (?:mai|più)|non \w+(?:emmo|iamo|ebbe) mai)"
    r"|\b(?:говор(?:ил|ит|ят)|сказал|просил|писал|попросил)\w{0,3}\b|\b(?:понятия не|не знаю|не уверен"
    r"|не переживай|не волнуйся|не думаю|никогда (?:не )?\w{1,20}(?:л|ла|ло|ли)\b|может(?:,)? нам)"
    r"|\b(?:mówi(?:ł|ła|li)|powiedzia\w{1,3}|prosi(?:ł|ła|li)|kaza(?:ł|ła|li))\b|\b(?:nie wiem"
    r"|nie jestem pew\w+|nie martw|nie ma\b|nie sądzę|nigdy nie \w{1,20}(?:ł|ła|ło|li|ły|łem|łam|liśmy)\b)"
)
ASIAN_REPORTS = (
    r"(?<![我])说过|讲过|提过|提到过|(?:他|她|们|长|理|哥|姐|总|王|张|李|同事|老板|导师)(?:说|让|叫"
    r"|要求)(?!明)|不知道|不清楚|不确定|不用担心|别担心|没关系"
    r"|从来没|从没|一直没|是不是|要不要|有没有可能|是否|吗[？?。]?\Z"
    r"|と(?:言|い)(?:って|った|われ|う話)|って(?:言|い)(?:って|った|う話)|らしい|だそう|分から|わから"
    r"|知らな|気にし(?:な|なく)|心配|たことが?(?:は)?(?:ない"
    r"|ありま)|(?:です|ます|でしょう|ません)か[。？?]?\Z|不明"
    r"|(?:라고|다고|자고) ?(?:했|말|하더|하시|들)|랬(?:어|다|지)|래요?[.]?\Z|대요[.]?\Z|모르겠|모르|걱정"
    r"|적(?:이|은|도)? ?없|(?:까요|나요|는가요"
    r"|을까)[?]?\Z|(?:한 번도|못 했)"
)
"""Forms of sentences that report, wonder or reassure."""
