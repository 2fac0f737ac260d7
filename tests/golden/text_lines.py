"""Lines to try tokenizers on: verses, accents, CJK, emoji, control characters, over-long words, punctuation, special tokens, numbers. The same for the same
seed. Characters are of Unicode 8 or older: `tokenizers` knows no others."""
import random

SCRIPTS = ((0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5f4), (0x620, 0x6ff), (0x900, 0x97f), (0xe00, 0xe5b), (0x1e00, 0x1fff),
           (0x2000, 0x206f), (0x20a0, 0x20bd), (0x2100, 0x218a), (0x2190, 0x23f3), (0x2600, 0x26ff), (0x3000, 0x30ff), (0x3400, 0x4db5), (0x4e00, 0x9fcc), (0xac00, 0xd7a3),
           (0xf900, 0xfa6d), (0xfe00, 0xfe0f), (0xff00, 0xffef), (0x1d400, 0x1d7cb), (0x1f300, 0x1f64f), (0x20000, 0x2a6d6), (0x2f800, 0x2fa1d))
WORDS = ("the", "The", "unaffable", "São", "naïve", "Ångström", "Straße", "İstanbul", "ΣΊΣΥΦΟΣ", "don't", "it's", "we'll", "they've", "I'D", "U.S.A.", "3.14", "1,000,000", "½", "²", "x_y",
         "[MASK]", "[SEP]", "[CLS", "[UNK]]", "[pad]", "[PAD]", "東京", "ｶﾞ", "한국어", "नमस्ते", "สวัสดี", "שלום", "مرحبا", "e\u0301", "o\u0323\u0302", "👍🏽", "👨‍👩‍👧", "🇩🇪", "\u200b", "\u00ad", "\ufeff",
         "\ufffd", "a\u0000b", "\x01\x7f", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x0b", "\x1c", "<html>", "http://x.y/z?q=1&r=2", "--", "…", "“quoted”", "’s", "''ll", "##ing", "$5", "^", "`", "~|")


def lines(n, seed=1, verses=()):
    draw = random.Random(seed)

    def word():
        kind = draw.random()
        if kind < 0.45:
            return draw.choice(WORDS)
        if kind < 0.75:
            low, high = draw.choice(SCRIPTS)
            return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 8)))
        if kind < 0.78:
            return draw.choice("aé漢0-") * draw.choice((99, 100, 101, 250))
        if kind < 0.85:
            return "".join(chr(draw.randint(0, 0x7f)) for _ in range(draw.randint(1, 12)))
        if kind < 0.92:
            return str(draw.randint(0, 10 ** draw.randint(1, 12)))
        return "".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(1, 14))).title()

    made = []
    for i in range(n):
        if verses and i % 3 == 0:
            made.append(verses[draw.randrange(len(verses))])
        else:
            made.append("".join(word() + draw.choice((" ", " ", " ", "  ", "", "\u2003")) for _ in range(draw.randint(0, 30))))
    return [line.replace("\n", " ").replace("\r", " ") for line in made]
