# French. Waits for review by a native speaker.

agent-unknown = L’agent
agent-says = { $agent } : { $text }

done = Terminé.
failed = Échec : { $text }
failed-remedy = Ce que vous pouvez faire : { $hint }
failed-retry = Un nouvel essai peut aider.
failed-no-retry = Un nouvel essai n’aidera pas.
failed-needs-you = Vous devez d’abord faire quelque chose.
cancelled-user = Annulé par vous.
cancelled-producer = Annulé par l’agent.
cancelled-timeout = Annulé, car le temps est écoulé.
cancelled-system = Annulé par le système.
cancelled-other = Annulé.
partial-result = Avant cela : { $text }

handoff-human = { $agent } passe la main à une personne : { $reason }
handoff-specialist = { $agent } passe la main à un agent spécialisé : { $reason }
handoff-queue = { $agent } passe la main à une file d’attente : { $reason }
handoff-other = { $agent } passe la main : { $reason }
handoff-urgent = C’est urgent.

asks = { $agent } demande : { $action }
still-asks = { $agent } demande toujours : { $action }
undo-never = Ceci ne peut pas être annulé.
undo-easy = Ceci peut être annulé.
undo-effort = Ceci peut être annulé avec un effort.
risk-low = Risque faible.
risk-medium = Risque moyen.
risk-high = Risque élevé.
time-to-answer = Vous avez { $time } pour répondre.
time-left = Il vous reste { $time } pour répondre.
default-reject = Sans réponse, ce ne sera pas fait.
default-accept = Sans réponse, ce sera fait.
default-response = Sans réponse, ceci est supposé : { $response }
default-goes-on = Sans réponse, l’agent continue sans elle.
answer-yes-no = Répondez oui ou non.
say-yes-no = Dites oui ou non.
answer-text = Répondez avec vos propres mots.
say-text = Dites votre réponse.
answer-number = Répondez par un nombre.
say-number = Dites un nombre.
answer-choice = Répondez par le numéro de votre choix.
say-choice = Dites le numéro de votre choix.
choices =
    { $count ->
        [one] Il y a { $count } choix.
       *[other] Il y a { $count } choix.
    }
choice = { $number } : { $label }
context-entry = { $name } : { $value }
hidden-character = Attention : ce texte a un caractère caché, { $code }.
direction-character = Attention : ce texte a un caractère qui change son ordre, { $code }.
look-alike = Attention : le mot { $word } a des lettres qui ressemblent seulement à d’autres : { $letters }.
letter = la lettre { $number } est { $code }

answer-sent = Envoyé : { $words }
word-yes = oui
word-no = non
answered-elsewhere = La question a reçu une réponse ailleurs.
outcome-accepted = Accepté. On continue.
outcome-rejected = Refusé. Ce ne sera pas fait.
outcome-answered = Réponse reçue. On continue.
outcome-timed-out-done = Aucune réponse à temps. Ce sera fait, comme annoncé.
outcome-timed-out-not-done = Aucune réponse à temps. Ce ne sera pas fait.
outcome-timed-out-goes-on = Aucune réponse à temps. L’agent continue sans elle.
outcome-withdrawn = La question a été retirée.

seconds =
    { $count ->
        [one] { $count } seconde
       *[other] { $count } secondes
    }
minutes =
    { $count ->
        [one] { $count } minute
       *[other] { $count } minutes
    }
hours =
    { $count ->
        [one] { $count } heure
       *[other] { $count } heures
    }

still-tool = Travaille toujours sur { $tool }, { $time }.
still-thinking = Réfléchit toujours, { $time }.
still-writing = Écrit toujours, { $time }.
still-working = Travaille toujours, { $time }.
still-waiting = Votre réponse est toujours attendue. Temps restant : { $time }.
stalled = Aucun signe de { $agent } depuis { $time }. Il est peut-être bloqué.

tool-calls =
    { $count ->
        [one] { $count } appel d’outil.
       *[other] { $count } appels d’outils.
    }
tool-calls-failed =
    { $count ->
        [one] { $count } appel d’outil, { $failed ->
            [one] { $failed } échec
           *[other] { $failed } échecs
        }.
       *[other] { $count } appels d’outils, { $failed ->
            [one] { $failed } échec
           *[other] { $failed } échecs
        }.
    }
tool-failed = { $tool } a échoué : { $reason }
tool-failed-plain = { $tool } a échoué.
tool-timeout = { $tool } a pris trop de temps et a été abandonné.
percent = { $percent } pour cent.
step = Étape { $step } sur { $total }.
step-alone = Étape { $step }.

gap = Attention : des messages ont été perdus.
gap-text = Il manque du texte ici.
flood =
    { $count ->
        [one] { $count } message a été omis, car trop sont arrivés à la fois.
       *[other] { $count } messages ont été omis, car trop sont arrivés à la fois.
    }
connection-lost = La connexion avec { $agent } est perdue.
connection-ended = { $agent } a mis fin à la connexion. Son retour sera annoncé.
connection-back = La connexion avec { $agent } est rétablie.
key-changed = Attention : { $agent } montre une autre clé qu’avant. C’est peut-être quelqu’un d’autre. Vérifiez avant de répondre.

nothing-new = Rien de nouveau.
nothing-runs = Rien n’est en cours.
nothing-waits = Rien n’attend votre réponse.
waiting-count =
    { $count ->
        [one] { $count } question attend votre réponse.
       *[other] { $count } questions attendent votre réponse.
    }
waiting-item = { $agent } demande : { $action } Temps restant : { $time }.
wrote-words =
    { $count ->
        [one] Il a écrit { $count } mot.
       *[other] Il a écrit { $count } mots.
    }
now-tool = Travaille maintenant sur { $tool }, depuis { $time }.
now-thinking = Réfléchit maintenant, depuis { $time }.
now-writing = Écrit maintenant, depuis { $time }.
now-working = Travaille maintenant, depuis { $time }.
now-waiting = Attend maintenant votre réponse.

code-block =
    { $lines ->
        [one] Code { $language }, { $lines } ligne.
       *[other] Code { $language }, { $lines } lignes.
    }
code-block-plain =
    { $lines ->
        [one] Code, { $lines } ligne.
       *[other] Code, { $lines } lignes.
    }
diff =
    { $added ->
        [one] Changements : { $added } ligne ajoutée, { $removed } retirées.
       *[other] Changements : { $added } lignes ajoutées, { $removed } retirées.
    }
diff-file =
    { $added ->
        [one] Changements dans { $file } : { $added } ligne ajoutée, { $removed } retirées.
       *[other] Changements dans { $file } : { $added } lignes ajoutées, { $removed } retirées.
    }
table =
    { $rows ->
        [one] Tableau, { $columns } colonnes, { $rows } ligne.
       *[other] Tableau, { $columns } colonnes, { $rows } lignes.
    }
table-more =
    { $count ->
        [one] Encore { $count } ligne.
       *[other] Encore { $count } lignes.
    }
link = lien vers { $host }
link-text = { $text }, lien vers { $host }
image = image : { $text }
image-plain = image
file-in = { $file } dans { $folder }
long-number = nombre de { $count } chiffres qui finit par { $ending }
long-code = code de { $count } caractères qui commence par { $start }
text-cut = Le texte continue.

glyph-check = coche
glyph-cross = croix
glyph-warning = attention
glyph-task-done = fait
glyph-task-open = à faire
glyph-arrow = vers

symbol-dot = point
symbol-period = point
symbol-comma = virgule
symbol-colon = deux-points
symbol-semicolon = point-virgule
symbol-question = point d’interrogation
symbol-exclamation = point d’exclamation
symbol-slash = barre oblique
symbol-backslash = barre oblique inverse
symbol-underscore = tiret bas
symbol-dash = tiret
symbol-at = arobase
symbol-hash = dièse
symbol-percent = pour cent
symbol-ampersand = esperluette
symbol-star = étoile
symbol-plus = plus
symbol-equals = égale
symbol-less = inférieur à
symbol-greater = supérieur à
symbol-pipe = barre verticale
symbol-tilde = tilde
symbol-caret = accent circonflexe
symbol-dollar = dollar
symbol-quote = guillemet
symbol-apostrophe = apostrophe
symbol-backtick = accent grave
symbol-left-parenthesis = parenthèse ouvrante
symbol-right-parenthesis = parenthèse fermante
symbol-left-bracket = crochet ouvrant
symbol-right-bracket = crochet fermant
symbol-left-brace = accolade ouvrante
symbol-right-brace = accolade fermante

ui-help = Tape help pour savoir ce que tu peux taper.
ui-listening = À l’écoute de { $agent } à { $address }.
ui-takes-no-answers = { $agent } n’accepte pas de réponses d’ici.
ui-not-connected = Pas encore connecté à { $agent }. { $why } Nouvel essai.
ui-does-not-serve = { $agent } ne sert pas : { $why }
ui-needs-token = Donnez un jeton valide : aaep listen --token FICHIER, ou AAEP_TOKEN.
ui-cannot-listen = Impossible d’écouter { $agent } : { $why }
ui-not-demanded = { $agent } n’est pas ce qui était exigé : { $why }
ui-number = Question { $number }. { $text }
ui-cannot-answer = On ne peut pas répondre d’ici à la question { $number }.
ui-not-sent-cannot = Rien n’a été envoyé. On ne peut pas répondre d’ici à la question { $number }.
ui-replaced = La question { $number } est close, car une autre a pris sa place.
ui-over = La question { $number } est close : { $how }.
ui-not-sent-over = Rien n’a été envoyé. La question { $number } est close : { $how }.
over-unanswerable = on ne pouvait pas y répondre d’ici
over-answered = tu y as répondu
over-elsewhere = elle a été réglée ailleurs
over-expired = son temps est écoulé
over-replaced = une autre question a pris sa place
over-session = sa session est finie
over-connection = la connexion est perdue
over-withdrawn = elle a été retirée
over-on-its-way = ta réponse est en route
over-long-ago = c’était il y a longtemps
ui-not-sent-to = Rien n’a été envoyé à la question { $number }. { $why }
refused-gone = La question n’est plus ouverte.
refused-away = L’agent est injoignable pour le moment.
refused-not-granted = L’agent n’accepte pas de réponses d’ici.
refused-not-allowed = La question n’accepte pas cette réponse.
refused-kind = La question demande un autre genre de réponse.
refused-over = L’abonnement est terminé.
takes-yes-no = Cette question attend oui ou non.
takes-choice = Cette question attend le numéro d’un choix, de 1 à { $last }.
takes-number = Cette question attend un nombre.
takes-no-such-number = Ce n’est pas un nombre.
takes-words = Cette question attend des mots.
takes-nothing = Ce n’est pas une question.
ui-nothing-waits = Rien n’attend de réponse. Rien n’a été envoyé.
ui-no-question = Il n’y a pas de question { $number }.
ui-not-sent-no-question = Rien n’a été envoyé. Il n’y a pas de question { $number }.
ui-no-such-question = Cette question n’existe pas.
ui-too-new = Rien n’a été envoyé, car cette question est arrivée juste quand tu répondais. La revoici.
ui-put-first = Rien n’a été envoyé. Une autre question attend. La voici.
ui-which = Rien n’a été envoyé, car plus d’une question attend. Dis laquelle, par exemple : yes 1.
ui-whole-word = La question { $number } demande le mot entier. Tape yes pour accepter. Rien n’a été envoyé.
ui-takes-words = Rien n’a été envoyé. La question { $number } attend des mots. Pour envoyer le mot { $word }, tape : to { $number } { $word }
ui-not-understood = Pas compris, et rien n’a été envoyé. { $hint } Tape help pour savoir ce que tu peux taper.
ui-hint-nothing = Rien n’attend de réponse.
ui-nothing-said = Rien n’a encore été dit.
ui-waiting = Question { $number } : { $text } Il reste { $time }.
ui-first = C’était la première.
ui-last = C’était la dernière.
ui-hear-normal-again = Tu entends de nouveau tout ce qui est normal.
ui-hear-normal = Tu entends maintenant les mots normaux.
ui-hear-details = Tu entends maintenant tous les détails.
ui-hear-little = Tu n’entends plus que les questions, les échecs et les résultats.
ui-hear-short = Tu entends maintenant des mots brefs.
ui-more-time = Dès la prochaine question, tu demandes { $factor } fois le temps.
ui-keeps-time = La question { $number } garde son temps ; il reste { $time }.
ui-no-work = Aucun agent ne travaille.
ui-no-such-work = Aucun agent au travail n’a le numéro ou le nom { $name }.
ui-cancel-which = Personne n’a été prié de s’arrêter. Tape cancel et un numéro :
ui-work = Numéro { $number } : { $agent }.
ui-cancel-asked = { $agent } a été prié de s’arrêter. L’agent décide lui-même.
ui-cancel-not-offered = { $agent } ne peut pas être prié de s’arrêter d’ici.
ui-cancel-not-connected = { $agent } n’a pas été prié de s’arrêter, car il est injoignable en ce moment.
ui-name-agent = Nomme un agent : { $names }.
ui-muted = Tu n’entends plus que les questions et les échecs de { $agent }. Tape unmute { $agent } pour tout entendre.
ui-unmuted = Tu entends de nouveau { $agent }.
ui-not-muted = { $agent } n’est pas en sourdine.
ui-no-agent = Il n’y a pas d’agent { $name }. { $hint }
ui-agents = Agents ici : { $names }.
ui-no-agents = Aucun agent n’est encore connu.
ui-close = Une question attend. Tape close pour partir quand même.
ui-other-window = La question { $number } a reçu une réponse d’une autre fenêtre : { $words }.
ui-on-its-way = La réponse à la question { $number } est en route.
ui-on-its-way-already = La réponse à la question { $number } est déjà en route.
ui-name-number = Plus d’une question attend ; donne son numéro.
ui-just-came = La question { $number } vient d’arriver ; donne son numéro.
ui-needs-care = La question { $number } porte sur quelque chose de délicat ; donne son numéro.
ui-command-failed = Ta commande n’a pas répondu à la question { $number } : { $why }. Elle t’attend toujours.
ui-command-silent = Ta commande n’a donné aucune réponse à la question { $number }. Elle t’attend toujours.
ui-command-answered = Ta commande a répondu à la question { $number } : { $words }.
ui-command-not-sent = La réponse de ta commande n’a pas été envoyée. { $why } La question t’attend toujours.
ui-no-sound = Pas de son : { $why }.
ui-voice-on-already = La voix est déjà activée.
ui-voice-on = La voix est activée.
ui-no-voice = Il n’y a pas de voix : { $why }.
ui-voice-off = La voix est désactivée.
ui-voice-off-already = La voix est déjà désactivée.
ui-stopped = La voix s’est tue. Les agents continuent.
ui-nothing-spoken = Rien n’est en train d’être dit. Les agents continuent.
ui-shortened = Les longs codes sont abrégés. Tape details all pour tous les caractères.
ui-voice-gone = La voix a disparu : { $why }.
ui-voice-back = La voix est revenue.
ui-no-braille = Il n’y a pas d’afficheur braille : { $why }.
ui-braille-lost = L’afficheur braille a disparu.

## Phrases of the web page

page-title = Suivre vos agents
page-connecting = Connexion en cours.
page-connected = Connecté à { $agent }.
page-refused = Non connecté. { $why }
page-closed = La connexion est fermée.
page-sign-in = Se connecter
page-token = Jeton
page-token-hint = Ce serveur demande un jeton. Il reste dans cette page et disparaît quand vous la fermez.
page-questions = Questions
page-answer-question = Répondre à la question { $number }
page-asks = { $agent } demande
page-yes = Oui, faites-le
page-no = Non, ne le faites pas
page-sure = En êtes-vous sûr ?
page-back = Revenir
page-yes-for-good = Oui, définitivement
page-repeat = Répéter
page-time-left = Temps restant
page-more-time = Plus de temps
page-later = Plus tard
page-later-said = Rien n'a été envoyé. La question attend toujours, dans la liste des questions.
page-send = Envoyer
page-your-answer = Votre réponse
page-your-number = Votre nombre
page-choose = Choisissez
page-nothing-chosen = Choisissez d'abord une réponse.
page-nothing-typed = Écrivez d'abord une réponse.
page-option-yes = Oui
page-option-no = Non
page-not-sent = Rien n'a été envoyé. { $why }
page-another-question =
    { $count ->
        [one] Une autre question attend.
       *[other] Une autre question attend. Il y en a { $count } maintenant.
    }
page-over-session = La question est close, car sa session est terminée.
page-over-connection = La question est close, car la connexion a été perdue.
page-views = Vues
page-transcript = Transcription
page-tab-captions = Sous-titres
page-tab-inspector = Inspecteur
page-tab-operator = Opérateur
page-tab-settings = Réglages
page-tab-demo = Démonstration
page-scenes = Scènes
page-scenes-hint = Lancez une scène et écoutez ce qu'un agent fait et demande.
page-start-scene = Lancer { $name }
page-scene-starts = { $name } commence.
page-show = Afficher
page-kind-all = Tout
page-kind-questions = Questions
page-kind-text = Texte
page-kind-tools = Outils
page-kind-results = Résultats et échecs
page-kind-states = États et progression
page-search = Rechercher
page-found =
    { $count ->
        [one] { $count } entrée trouvée.
       *[other] { $count } entrées trouvées.
    }
page-next-unread = Suivant non lu
page-no-unread = Rien n'est non lu.
page-export = Exporter en texte
page-earlier = Afficher plus tôt
page-newer = Afficher plus tard
page-newest = Afficher le plus récent
page-empty = Rien ne s'est encore passé.
page-removed =
    { $count ->
        [one] { $count } entrée plus ancienne a été retirée pour économiser la mémoire.
       *[other] { $count } entrées plus anciennes ont été retirées pour économiser la mémoire.
    }
page-keys = Dans la transcription, les flèches vont d'entrée en entrée, Page précédente et Page suivante de session en session, K à l'entrée suivante du même type, U à la suivante non lue.
page-stop = Demander à { $agent } de s'arrêter
page-name-session = Session
page-name-state = État
page-name-tool = Outil
page-name-progress = Progression
page-name-text = Texte
page-name-question = Question
page-name-handoff = Relais
page-name-result = Résultat
page-name-failure = Échec
page-name-other = Événement
page-caption-size = Taille du texte
page-captions-empty = Les sous-titres apparaissent ici.
page-terms = Conditions
page-term = Condition
page-requested = Demandé
page-honored = Accordé
page-change-terms = Changer les conditions
page-terms-changed = Les conditions ont changé.
page-events = Événements
page-received =
    { $count ->
        [one] { $count } événement reçu.
       *[other] { $count } événements reçus.
    }
page-capture = Enregistrer dans un fichier
page-clear = Effacer
page-no-findings = Conforme au schéma.
page-findings =
    { $count ->
        [one] { $count } anomalie.
       *[other] { $count } anomalies.
    }
page-latency = Reçu { $millis } millisecondes après son émission.
page-subscriptions = Abonnements
page-subscription = Abonnement
page-user = Utilisateur
page-delivered = Livrés
page-held = Retenus
page-coalesced = Regroupés
page-queued = En file
page-none = Aucun.
page-open-questions = Questions ouvertes
page-asked = Posée
page-decisions = Décisions récentes
page-decided = Décidée
page-resolution = Issue
page-plot = Événements par seconde sur les deux dernières minutes
page-time = Heure
page-rate = Événements par seconde
page-forbidden = Votre jeton ne permet pas cette vue. Il faut le rôle admin.
page-no-numbers = Les chiffres ne peuvent pas être lus pour le moment.
page-verbosity = Détail
page-terse = Court
page-normal = Normal
page-detailed = Tous les détails
page-load = Combien à la fois
page-load-hint = Avec peu, vous n'entendez que les questions, les échecs et les résultats.
page-low = Peu
page-medium = Moyen
page-high = Beaucoup
page-pace = Mots par minute
page-languages = Langues
page-languages-hint = La meilleure d'abord, par exemple : fr, en. La page elle-même change au prochain chargement.
page-time-to-answer = Temps pour répondre
page-time-factor =
    { $factor ->
        [1] Celui de l'agent
       *[other] { $factor } fois plus long
    }
page-time-hint = Cela compte à partir de la prochaine question.
page-announcing = Annonces au lecteur d'écran
page-announcing-hint = Si vous n'entendez rien, choisissez les régions actives.
page-automatic = Automatique
page-live-region = Régions actives
page-off = Désactivé
page-announced = Ce qui est annoncé
page-voice = Parler avec la voix du navigateur, sans lecteur d'écran
page-sounds = Sons
