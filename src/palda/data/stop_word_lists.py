"""Stop words of some languages.

Apostrophes separate words, so the remains of elisions and contractions ("don" of "don't", "qu" of "qu'il") are listed
too. Words of one letter are not: ``TextWords`` drops them by their length.
"""

from __future__ import annotations

# Missing in scikit-learn's list: common verb forms and remains of contractions ("won" stays a word).
_ENGLISH_MORE = """
    ain aren couldn did didn does doesn doing don hadn hasn haven having isn ll mightn mustn needn shan shouldn theirs
    ve wasn weren wouldn
"""

# Content words in scikit-learn's list, which are kept. "Interest" is a topic of Reuters news.
_ENGLISH_CONTENT = """
    amount bill bottom call cry describe detail empty fill fire front full interest mill mine move name serious show
    side sincere system thick thin
"""

_LISTS = {
    "dutch": """
        aan al alle alleen als altijd andere beide ben bij boven daar dan dat de den der deze die dit doch doen door
        dus een eens elk elke en er ge geen geweest haar had hadden heb hebben heeft hem het hier hij hoe hun iemand
        iets ik in indien is ja je jij jou jouw jullie kan kon konden kunnen maar me men met mij mijn moet moeten na
        naar net niet niets nog nu of om omdat onder ons onze ook op over reeds sinds te tegen ten tenzij ter terwijl
        toch toen tot tussen uit uw van vanaf veel via voor waar waarom wanneer want waren was wat we weer wel welke
        werd werden wie wij wil worden wordt zal ze zelf zich zij zijn zo zoals zonder zou zouden zulke
    """,
    "french": """
        afin ai aie aient ainsi alors après as au aucun aucune aurait aussi autre autres aux avaient avait avant avec
        avez avoir avons ayant car ce ceci cela celle celles celui cependant ces cet cette ceux chaque chez
        comme comment contre dans de depuis des donc dont du elle elles en encore entre es est et étaient étais était
        étant été êtes être eu eux furent fut il ils jamais je jusqu jusque la là laquelle le lequel les lesquelles
        lesquels leur leurs lors lorsqu lorsque lui ma mais me même mêmes mes moi moins mon ne ni non nos notre nous
        on ont or ou où par parce pas pendant peu peut plus pour pourquoi près puis puisqu puisque qu quand que quel
        quelle quelles quels qui quoi sa sans se sera serait ses si soit sommes son sont sous suis sur ta tandis te
        tel telle telles tels tes toi ton toujours tous tout toute toutes très trop tu un une vers voici voilà vos
        votre vous
    """,
    "german": """
        aber alle allem allen aller alles als also am an andere anderem anderen anderer anderes auch auf aus bei beim
        bin bis bist da dabei dadurch daher damit dann daran darauf daraus darin das dass daß davon dazu dein deine
        dem den denen denn der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du
        durch ein eine einem einen einer eines er es etwas euch euer eure für gegen gewesen hab habe haben hat hatte
        hatten hier hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist ja jede jedem jeden
        jeder jedes jene jenem jenen jener jenes jetzt kann kein keine keinem keinen keiner können könnte man manche
        mehr mein meine meinem meinen meiner mich mir mit muss musste muß müssen nach nicht nichts noch nun nur ob
        oder ohne schon sehr sein seine seinem seinen seiner seines seit selbst sich sie sind so solche sollte
        sondern sonst soll sollen über um und uns unser unsere unter viel vom von vor während war waren was weil
        welche welchem welchen welcher welches wenn wer werde werden wie wieder will wir wird wirst wo wurde wurden
        würde würden zu zum zur zwar zwischen
    """,
    "italian": """
        ad agli ai al alcuni all alla alle allo allora altra altre altri altro anche ancora avendo avere aveva
        avevano avevo avuto bene che chi ci ciò coi col come con contro cosa così cui da dagli dai dal dall dalla
        dalle dallo degli dei del dell della delle dello dentro di dopo dove dunque durante ed era erano essa esse
        essendo essere essi esso fino fra fu furono già gli ha hai hanno ho il in invece io la là le lei li lo loro
        lui ma mai me meno mentre mi mia mie miei mio molto ne né negli nei nel nell nella nelle nello noi non nostra
        nostre nostri nostro ogni oppure ora per perché però più po poco poi prima proprio può qua quale quali quando
        quanto quasi quel quella quelle quelli quello quest questa queste questi questo qui quindi sarà se sé sei
        sempre senza si sia siamo siano siete solo sono sopra sotto sta stata state stati stato su sua sue sugli sui
        sul sull sulla sulle sullo suo suoi tale tali tanto te ti tra tu tua tue tuo tuoi tutta tutte tutti tutto un
        una uno verso vi voi vostra vostre vostri vostro
    """,
    "portuguese": """
        ainda algo algum alguma algumas alguns além ante antes ao aos apenas após aquela aquelas aquele aqueles
        aquilo as assim até cada com como contra contudo da das de dela delas dele deles depois desde dessa desse
        desta deste do dos durante ela elas ele eles em embora enquanto entre era eram essa essas esse esses esta
        está estamos estão estar estas estava estavam este esteve estes estou eu foi foram for fosse havia há isso
        isto já lhe lhes mais mas me mesma mesmo meu meus minha minhas muito na não nas nem nenhum nessa nesse nesta
        neste no nos nós nossa nossas nosso nossos num numa nunca onde os ou outra outras outro outros para pela
        pelas pelo pelos perante pois por porque porém quais qual quando quanto quase que quem se seja sem sempre
        sendo ser será seu seus sido sob sobre somos sua suas são só também tal te tem têm temos tendo ter teu teus
        teve tinha tinham tive todas todo todos toda tu tua tuas tudo um uma umas uns você vocês vos
    """,
    "russian": """
        без более больше бы был была были было быть вам вас ваш весь во вот все всегда всего всей всем всех всё всю
        вы где да даже для до его ее её ей ему если есть еще ещё же за затем здесь из или им ими иногда их как какая
        какой когда кого кому которая которого которой которые который которых которым кто куда ли лишь между меня
        мне мной мог может можно мой моя мы на над надо нам нами нас наш не него нее неё ней нельзя нем нём нет ни
        нибудь никогда ним них ничего но ну об однако он она они оно от очень перед по под после потом потому почти
        при про раз разве сам сама сами свой свою себе себя со собой так такой также там тебе тебя тем теперь то
        тобой тогда того тоже той только том тому тот ту ты уж уже хотя чего чем через что чтобы чуть эта эти этих
        это этого этой этом этому этот эту
    """,
    "spanish": """
        ahora al algo alguna algunas alguno algunos algún ante antes aquel aquella aquellas aquello aquellos aquí así
        aún aunque bajo bien cada casi como cómo con contra cual cuál cuales cuando cuándo cuanto de del desde después
        donde dónde durante el él ella ellas ello ellos en entonces entre era eran eres es esa esas ese eso esos
        esta está estaba estaban estamos están estar estas este esto estos estoy fue fueron ha haber había habían han
        hasta hay he hemos la las le les lo los luego más me mediante mi mí mientras mis mismo mucho muchos muy nada
        ni ningún ninguna no nos nosotras nosotros nuestra nuestras nuestro nuestros nunca os otra otras otro otros
        para pero poco por porque pues que qué quien quién quienes se sé sea según ser será si sí sido siempre sin
        sino sobre sois solo sólo somos son soy su sus suya suyo también tampoco tan tanto te tenía tenido tiene
        tienen toda todas todavía todo todos tras tu tú tus tuvo un una unas uno unos usted ustedes vosotros vuestra
        vuestro ya yo
    """,
    "swedish": """
        alla allt alltid andra annan annat att av bara bli blir blev blivit både de dem den denna deras dess dessa det
        detta dig din dina ditt du där därför då efter eftersom ej eller en er era ert ett finns från för före ha hade
        han hans har hela henne hennes hon honom hur här hos igen in inga ingen inget innan inom inte ja jag kan kanske
        kunde man med medan mellan men mer mera mest mig min mina mitt mot mycket ni nog nu när någon något några och
        också om oss på redan samma samt sedan sig sin sina sitt ska skall skulle som så sådan sådana sådant till trots
        under upp ut utan vad var vara varför varit varje vars vart vem vi via vid vilka vilken vilket vill än
        ännu är även åt över
    """,
}

_SAME_LIST = {"porter": "english", "dutch_porter": "dutch"}

LISTED_LANGUAGES = ("english", *_LISTS)
"""Languages with a list of stop words."""


def stop_words(language: str) -> frozenset[str]:
    """Stop words of a Snowball language; none for a language without a list."""
    language = _SAME_LIST.get(language, language)
    if language == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset({*ENGLISH_STOP_WORDS, *_ENGLISH_MORE.split()}.difference(_ENGLISH_CONTENT.split()))
    return frozenset(_LISTS.get(language, "").split())
