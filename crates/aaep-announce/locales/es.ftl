# Spanish. Waits for review by a native speaker.

agent-unknown = El agente
agent-says = { $agent }: { $text }

done = Listo.
failed = Ha fallado: { $text }
failed-remedy = Lo que puedes hacer: { $hint }
failed-retry = Puede ayudar intentarlo de nuevo.
failed-no-retry = Intentarlo de nuevo no ayudará.
failed-needs-you = Antes tienes que hacer algo.
cancelled-user = Cancelado por ti.
cancelled-producer = Cancelado por el agente.
cancelled-timeout = Cancelado, porque se acabó el tiempo.
cancelled-system = Cancelado por el sistema.
cancelled-other = Cancelado.
partial-result = Antes de eso: { $text }

handoff-human = { $agent } pasa la tarea a una persona: { $reason }
handoff-specialist = { $agent } pasa la tarea a un agente especialista: { $reason }
handoff-queue = { $agent } pasa la tarea a una cola: { $reason }
handoff-other = { $agent } pasa la tarea: { $reason }
handoff-urgent = Es urgente.

asks = { $agent } pregunta: { $action }
still-asks = { $agent } sigue preguntando: { $action }
undo-never = Esto no se puede deshacer.
undo-easy = Esto se puede deshacer.
undo-effort = Esto se puede deshacer con esfuerzo.
risk-low = Riesgo bajo.
risk-medium = Riesgo medio.
risk-high = Riesgo alto.
time-to-answer = Tienes { $time } para responder.
time-left = Te quedan { $time } para responder.
default-reject = Sin respuesta, no se hará.
default-accept = Sin respuesta, se hará.
default-response = Sin respuesta, se supone esto: { $response }
default-goes-on = Sin respuesta, el agente sigue sin ella.
answer-yes-no = Responde sí o no.
say-yes-no = Di sí o no.
answer-text = Responde con tus palabras.
say-text = Di tu respuesta.
answer-number = Responde con un número.
say-number = Di un número.
answer-choice = Responde con el número de tu opción.
say-choice = Di el número de tu opción.
choices =
    { $count ->
        [one] Hay 1 opción.
       *[other] Hay { $count } opciones.
    }
choice = { $number }: { $label }
context-entry = { $name }: { $value }
hidden-character = Aviso: este texto tiene un carácter oculto, { $code }.
direction-character = Aviso: este texto tiene un carácter que cambia su orden, { $code }.
look-alike = Aviso: la palabra { $word } tiene letras que solo se parecen a otras: { $letters }.
letter = la letra { $number } es { $code }

answer-sent = Enviado: { $words }
word-yes = sí
word-no = no
answered-elsewhere = La pregunta se respondió en otro lugar.
outcome-accepted = Aceptado. Se sigue adelante.
outcome-rejected = Rechazado. No se hará.
outcome-answered = Respondido. Se sigue adelante.
outcome-timed-out-done = No llegó respuesta a tiempo. Se hará, como se anunció.
outcome-timed-out-not-done = No llegó respuesta a tiempo. No se hará.
outcome-timed-out-goes-on = No llegó respuesta a tiempo. El agente sigue sin ella.
outcome-withdrawn = La pregunta se retiró.

seconds =
    { $count ->
        [one] 1 segundo
       *[other] { $count } segundos
    }
minutes =
    { $count ->
        [one] 1 minuto
       *[other] { $count } minutos
    }
hours =
    { $count ->
        [one] 1 hora
       *[other] { $count } horas
    }

still-tool = Sigue trabajando en { $tool }, { $time }.
still-thinking = Sigue pensando, { $time }.
still-writing = Sigue escribiendo, { $time }.
still-working = Sigue trabajando, { $time }.
still-waiting = Todavía falta tu respuesta. Quedan { $time }.
stalled = Ninguna señal de { $agent } desde hace { $time }. Puede que esté bloqueado.

tool-calls =
    { $count ->
        [one] 1 llamada a herramientas.
       *[other] { $count } llamadas a herramientas.
    }
tool-calls-failed =
    { $count ->
        [one] 1 llamada a herramientas, { $failed ->
            [one] una fallida
           *[other] { $failed } fallidas
        }.
       *[other] { $count } llamadas a herramientas, { $failed ->
            [one] una fallida
           *[other] { $failed } fallidas
        }.
    }
tool-failed = { $tool } ha fallado: { $reason }
tool-failed-plain = { $tool } ha fallado.
tool-timeout = { $tool } tardó demasiado y se abandonó.
percent = { $percent } por ciento.
step = Paso { $step } de { $total }.
step-alone = Paso { $step }.

gap = Aviso: se perdieron algunos mensajes.
gap-text = Aquí falta texto.
flood =
    { $count ->
        [one] Se omitió 1 mensaje, porque llegaron demasiados a la vez.
       *[other] Se omitieron { $count } mensajes, porque llegaron demasiados a la vez.
    }
connection-lost = Se perdió la conexión con { $agent }.
connection-ended = { $agent } ha terminado la conexión. Se avisará cuando vuelva.
connection-back = Ha vuelto la conexión con { $agent }.
key-changed = Aviso: { $agent } muestra una clave distinta de la anterior. Puede ser otro. Compruébalo antes de responder.

nothing-new = Nada nuevo.
nothing-runs = No hay nada en marcha.
nothing-waits = Nada espera tu respuesta.
waiting-count =
    { $count ->
        [one] 1 pregunta espera tu respuesta.
       *[other] { $count } preguntas esperan tu respuesta.
    }
waiting-item = { $agent } pregunta: { $action } Quedan { $time }.
wrote-words =
    { $count ->
        [one] Escribió 1 palabra.
       *[other] Escribió { $count } palabras.
    }
now-tool = Ahora trabaja en { $tool }, desde hace { $time }.
now-thinking = Ahora piensa, desde hace { $time }.
now-writing = Ahora escribe, desde hace { $time }.
now-working = Ahora trabaja, desde hace { $time }.
now-waiting = Ahora espera tu respuesta.

code-block =
    { $lines ->
        [one] Código { $language }, 1 línea.
       *[other] Código { $language }, { $lines } líneas.
    }
code-block-plain =
    { $lines ->
        [one] Código, 1 línea.
       *[other] Código, { $lines } líneas.
    }
diff =
    { $added ->
        [one] Cambios: 1 línea añadida, { $removed } quitadas.
       *[other] Cambios: { $added } líneas añadidas, { $removed } quitadas.
    }
diff-file =
    { $added ->
        [one] Cambios en { $file }: 1 línea añadida, { $removed } quitadas.
       *[other] Cambios en { $file }: { $added } líneas añadidas, { $removed } quitadas.
    }
table =
    { $rows ->
        [one] Tabla, { $columns } columnas, 1 fila.
       *[other] Tabla, { $columns } columnas, { $rows } filas.
    }
table-more =
    { $count ->
        [one] 1 fila más.
       *[other] { $count } filas más.
    }
link = enlace a { $host }
link-text = { $text }, enlace a { $host }
image = imagen: { $text }
image-plain = imagen
file-in = { $file } en { $folder }
long-number = número de { $count } cifras que termina en { $ending }
long-code = código de { $count } caracteres que empieza por { $start }
text-cut = El texto continúa.

glyph-check = marca
glyph-cross = cruz
glyph-warning = aviso
glyph-task-done = hecho
glyph-task-open = pendiente
glyph-arrow = a

symbol-dot = punto
symbol-period = punto
symbol-comma = coma
symbol-colon = dos puntos
symbol-semicolon = punto y coma
symbol-question = interrogación
symbol-exclamation = exclamación
symbol-slash = barra
symbol-backslash = barra invertida
symbol-underscore = guion bajo
symbol-dash = guion
symbol-at = arroba
symbol-hash = almohadilla
symbol-percent = por ciento
symbol-ampersand = signo y
symbol-star = asterisco
symbol-plus = más
symbol-equals = igual
symbol-less = menor que
symbol-greater = mayor que
symbol-pipe = barra vertical
symbol-tilde = virgulilla
symbol-caret = circunflejo
symbol-dollar = dólar
symbol-quote = comillas
symbol-apostrophe = apóstrofo
symbol-backtick = acento grave
symbol-left-parenthesis = abre paréntesis
symbol-right-parenthesis = cierra paréntesis
symbol-left-bracket = abre corchete
symbol-right-bracket = cierra corchete
symbol-left-brace = abre llave
symbol-right-brace = cierra llave

ui-help = Escribe help para ver lo que puedes escribir.
ui-listening = Escuchando a { $agent } en { $address }.
ui-takes-no-answers = { $agent } no acepta respuestas desde aquí.
ui-not-connected = Aún sin conexión con { $agent }. { $why } Se intenta de nuevo.
ui-does-not-serve = { $agent } no atiende: { $why }
ui-needs-token = Indique un token válido: aaep listen --token ARCHIVO, o AAEP_TOKEN.
ui-cannot-listen = No se puede escuchar a { $agent }: { $why }
ui-not-demanded = { $agent } no es lo que se exigió: { $why }
ui-number = Pregunta { $number }. { $text }
ui-cannot-answer = La pregunta { $number } no se puede responder desde aquí.
ui-not-sent-cannot = No se envió nada. La pregunta { $number } no se puede responder desde aquí.
ui-replaced = La pregunta { $number } terminó, porque otra ocupó su lugar.
ui-over = La pregunta { $number } terminó: { $how }.
ui-not-sent-over = No se envió nada. La pregunta { $number } terminó: { $how }.
over-unanswerable = no se podía responder desde aquí
over-answered = la respondiste
over-elsewhere = se resolvió en otro lugar
over-expired = se agotó su tiempo
over-replaced = otra pregunta ocupó su lugar
over-session = su sesión terminó
over-connection = se perdió la conexión
over-withdrawn = se retiró
over-on-its-way = tu respuesta está en camino
over-long-ago = fue hace mucho
ui-not-sent-to = No se envió nada a la pregunta { $number }. { $why }
refused-gone = La pregunta ya no está abierta.
refused-away = No se puede contactar con el agente ahora.
refused-not-granted = El agente no acepta respuestas desde aquí.
refused-not-allowed = La pregunta no admite esta respuesta.
refused-kind = La pregunta pide otro tipo de respuesta.
refused-over = La suscripción terminó.
takes-yes-no = Esta pregunta admite sí o no.
takes-choice = Esta pregunta admite el número de una opción, de 1 a { $last }.
takes-number = Esta pregunta admite un número.
takes-no-such-number = Esto no es un número.
takes-words = Esta pregunta admite palabras.
takes-nothing = Esto no es una pregunta.
ui-nothing-waits = Nada espera respuesta. No se envió nada.
ui-no-question = No hay pregunta { $number }.
ui-not-sent-no-question = No se envió nada. No hay pregunta { $number }.
ui-no-such-question = No existe tal pregunta.
ui-too-new = No se envió nada, porque esta pregunta llegó justo cuando respondías. Aquí está otra vez.
ui-put-first = No se envió nada. Otra pregunta espera. Aquí está.
ui-which = No se envió nada, porque espera más de una pregunta. Di cuál, por ejemplo: yes 1.
ui-whole-word = La pregunta { $number } necesita la palabra entera. Escribe yes para aceptar. No se envió nada.
ui-takes-words = No se envió nada. La pregunta { $number } admite palabras. Para enviar la palabra { $word }, escribe: to { $number } { $word }
ui-not-understood = No se entendió y no se envió nada. { $hint } Escribe help para ver lo que puedes escribir.
ui-hint-nothing = Nada espera respuesta.
ui-nothing-said = Aún no se dijo nada.
ui-waiting = Pregunta { $number }: { $text } Quedan { $time }.
ui-first = Esa fue la primera.
ui-last = Esa fue la última.
ui-hear-normal-again = Vuelves a oír todo lo normal.
ui-hear-normal = Ahora oyes las palabras normales.
ui-hear-details = Ahora oyes todos los detalles.
ui-hear-little = Ahora oyes solo preguntas, fallos y resultados.
ui-hear-short = Ahora oyes palabras breves.
ui-more-time = Desde la próxima pregunta pides { $factor } veces el tiempo.
ui-keeps-time = La pregunta { $number } conserva su tiempo; quedan { $time }.
ui-no-work = Ningún agente está trabajando.
ui-no-such-work = Ningún agente que trabaje tiene el número o el nombre { $name }.
ui-cancel-which = No se pidió a nadie que pare. Escribe cancel y un número:
ui-work = Número { $number }: { $agent }.
ui-cancel-asked = Se pidió a { $agent } que pare. El agente decide por sí mismo.
ui-cancel-not-offered = Desde aquí no se puede pedir a { $agent } que pare.
ui-cancel-not-connected = No se pidió a { $agent } que pare, porque ahora no hay conexión.
ui-name-agent = Nombra un agente: { $names }.
ui-muted = Ahora oyes solo preguntas y fallos de { $agent }. Escribe unmute { $agent } para oír todo.
ui-unmuted = Vuelves a oír a { $agent }.
ui-not-muted = { $agent } no está silenciado.
ui-no-agent = No hay ningún agente { $name }. { $hint }
ui-agents = Agentes aquí: { $names }.
ui-no-agents = Aún no se conoce ningún agente.
ui-close = Una pregunta espera. Escribe close para salir de todos modos.
ui-other-window = La pregunta { $number } se respondió desde otra ventana: { $words }.
ui-on-its-way = La respuesta a la pregunta { $number } está en camino.
ui-on-its-way-already = La respuesta a la pregunta { $number } ya está en camino.
ui-name-number = Espera más de una pregunta; di su número.
ui-just-came = La pregunta { $number } acaba de llegar; di su número.
ui-needs-care = La pregunta { $number } trata de algo que exige cuidado; di su número.
ui-command-failed = Tu programa no respondió a la pregunta { $number }: { $why }. Sigue esperándote.
ui-command-silent = Tu programa no dio respuesta a la pregunta { $number }. Sigue esperándote.
ui-command-answered = Tu programa respondió a la pregunta { $number }: { $words }.
ui-command-not-sent = La respuesta de tu programa no se envió. { $why } La pregunta sigue esperándote.
ui-no-sound = Sin sonido: { $why }.
ui-voice-on-already = La voz ya está activada.
ui-voice-on = La voz está activada.
ui-no-voice = No hay voz: { $why }.
ui-voice-off = La voz está desactivada.
ui-voice-off-already = La voz ya está desactivada.
ui-stopped = La voz se ha detenido. Los agentes siguen.
ui-nothing-spoken = No se está diciendo nada. Los agentes siguen.
ui-shortened = Los códigos largos están abreviados. Escribe details all para ver todos los caracteres.
ui-voice-gone = La voz se perdió: { $why }.
ui-voice-back = La voz volvió.
ui-no-braille = No hay línea braille: { $why }.
ui-braille-lost = La línea braille se perdió.

## Phrases of the web page

page-title = Sigue a tus agentes
page-connecting = Conectando.
page-connected = Conectado con { $agent }.
page-refused = Sin conexión. { $why }
page-closed = La conexión está cerrada.
page-sign-in = Iniciar sesión
page-token = Token
page-token-hint = Este servidor necesita un token. Se queda en esta página y desaparece al cerrarla.
page-questions = Preguntas
page-answer-question = Responder a la pregunta { $number }
page-asks = { $agent } pregunta
page-yes = Sí, hazlo
page-no = No, no lo hagas
page-sure = ¿Seguro?
page-back = Volver
page-yes-for-good = Sí, definitivamente
page-repeat = Repetir
page-time-left = Tiempo restante
page-more-time = Más tiempo
page-later = Más tarde
page-later-said = No se envió nada. La pregunta sigue esperando en la lista de preguntas.
page-send = Enviar
page-your-answer = Tu respuesta
page-your-number = Tu número
page-choose = Elige una
page-nothing-chosen = Primero elige una respuesta.
page-nothing-typed = Primero escribe una respuesta.
page-option-yes = Sí
page-option-no = No
page-not-sent = No se envió nada. { $why }
page-another-question =
    { $count ->
        [one] Espera otra pregunta.
       *[other] Espera otra pregunta. Ahora hay { $count }.
    }
page-over-session = La pregunta terminó, porque acabó su sesión.
page-over-connection = La pregunta terminó, porque se perdió la conexión.
page-views = Vistas
page-transcript = Transcripción
page-tab-captions = Subtítulos
page-tab-inspector = Inspector
page-tab-operator = Operador
page-tab-settings = Ajustes
page-tab-demo = Demostración
page-scenes = Escenas
page-scenes-hint = Inicia una escena y escucha lo que un agente hace y pregunta.
page-start-scene = Iniciar { $name }
page-scene-starts = { $name } empieza.
page-show = Mostrar
page-kind-all = Todo
page-kind-questions = Preguntas
page-kind-text = Texto
page-kind-tools = Herramientas
page-kind-results = Resultados y fallos
page-kind-states = Estados y progreso
page-search = Buscar
page-found =
    { $count ->
        [one] 1 entrada encontrada.
       *[other] { $count } entradas encontradas.
    }
page-next-unread = Siguiente sin leer
page-no-unread = No hay nada sin leer.
page-export = Exportar como texto
page-earlier = Mostrar anteriores
page-newer = Mostrar posteriores
page-newest = Mostrar lo más reciente
page-empty = Todavía no ha pasado nada.
page-removed =
    { $count ->
        [one] Se quitó 1 entrada anterior para ahorrar memoria.
       *[other] Se quitaron { $count } entradas anteriores para ahorrar memoria.
    }
page-keys = En la transcripción, las flechas van de entrada en entrada, Re Pág y Av Pág de sesión en sesión, K a la siguiente entrada del mismo tipo, U a la siguiente sin leer.
page-stop = Pedir a { $agent } que pare
page-name-session = Sesión
page-name-state = Estado
page-name-tool = Herramienta
page-name-progress = Progreso
page-name-text = Texto
page-name-question = Pregunta
page-name-handoff = Traspaso
page-name-result = Resultado
page-name-failure = Fallo
page-name-other = Evento
page-caption-size = Tamaño del texto
page-captions-empty = Los subtítulos aparecen aquí.
page-terms = Condiciones
page-term = Condición
page-requested = Pedido
page-honored = Concedido
page-change-terms = Cambiar las condiciones
page-terms-changed = Las condiciones han cambiado.
page-events = Eventos
page-received =
    { $count ->
        [one] 1 evento recibido.
       *[other] { $count } eventos recibidos.
    }
page-capture = Guardar como archivo
page-clear = Vaciar
page-no-findings = Cumple el esquema.
page-findings =
    { $count ->
        [one] 1 hallazgo.
       *[other] { $count } hallazgos.
    }
page-latency = Recibido { $millis } milisegundos después de emitirse.
page-subscriptions = Suscripciones
page-subscription = Suscripción
page-user = Usuario
page-delivered = Entregados
page-held = Retenidos
page-coalesced = Unidos
page-queued = En cola
page-none = Ninguno.
page-open-questions = Preguntas abiertas
page-asked = Preguntado
page-decisions = Decisiones recientes
page-decided = Decidido
page-resolution = Resultado
page-plot = Eventos por segundo en los últimos dos minutos
page-time = Hora
page-rate = Eventos por segundo
page-forbidden = Tu token no permite esta vista. Necesita el rol admin.
page-no-numbers = Ahora no se pueden leer los números.
page-verbosity = Detalle
page-terse = Breve
page-normal = Normal
page-detailed = Todos los detalles
page-load = Cuánto a la vez
page-load-hint = Con poco, solo oyes preguntas, fallos y resultados.
page-low = Poco
page-medium = Medio
page-high = Mucho
page-pace = Palabras por minuto
page-languages = Idiomas
page-languages-hint = Primero el mejor, por ejemplo: es, en. La página misma cambia al volver a cargarla.
page-time-to-answer = Tiempo para responder
page-time-factor =
    { $factor ->
        [1] El que da el agente
       *[other] { $factor } veces más
    }
page-time-hint = Cuenta desde la próxima pregunta.
page-announcing = Anuncios al lector de pantalla
page-announcing-hint = Si no oyes nada, elige las regiones activas.
page-automatic = Automático
page-live-region = Regiones activas
page-off = Apagado
page-announced = Qué se anuncia
page-voice = Hablar con la voz del navegador, para quien no usa lector de pantalla
page-sounds = Sonidos
