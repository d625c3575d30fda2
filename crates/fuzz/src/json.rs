//! Damage to JSON: at its tokens, so that most of it still parses.

use crate::bytes::damage;
use crate::random::Random;

/// A text, cut at its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    tokens: Vec<Vec<u8>>,
}

const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "-1",
    "-0",
    "7",
    "8",
    "9",
    "128",
    "255",
    "256",
    "4096",
    "4097",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
];

const TEXTS: [&str; 16] = [
    "\"\"",
    "\"any\"",
    "\"a\"",
    "\"..\"",
    "\"plan.json\"",
    "\"image-0.bin\"",
    "\"../image-0.bin\"",
    "\"o0.handle[0]\"",
    "\"s0\"",
    "\"d7.extent\"",
    "\"d0.is_first\"",
    "\"float16\"",
    "\"IEEE_FP32\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\u{202e}\"",
];

const VALUES: [&str; 8] = ["null", "true", "[]", "{}", "[0]", "{\"tensor\":0}", "0.5", "1e-5"];

impl Json {
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let end = at + token_bytes(&text[at..]);
            if !text[at].is_ascii_whitespace() {
                tokens.push(text[at..end].to_vec());
            }
            at = end;
        }
        Self { tokens }
    }

    /// A copy, damaged in a few places.
    pub(crate) fn damaged(&self, random: &mut Random) -> Vec<u8> {
        let mut tokens: Vec<&[u8]> = self.tokens.iter().map(Vec::as_slice).collect();
        let garbage = garbage(random);
        for _ in 0..1 + random.below(2) * random.below(3) {
            change(&mut tokens, &garbage, random);
        }
        let mut text = tokens.concat();
        if random.one_in(6) {
            damage(&mut text, random);
        }
        text
    }
}

fn change<'a>(tokens: &mut Vec<&'a [u8]>, garbage: &'a [u8], random: &mut Random) {
    if tokens.is_empty() {
        return;
    }
    let at = random.below(tokens.len());
    match random.below(12) {
        0..=4 => exchange(tokens, at, garbage, random),
        5 if random.one_in(2) => drop(tokens.remove(at)),
        5 => tokens.insert(at, random.pick(&[&b","[..], b":", b"[", b"]", b"{", b"}", b"\""])),
        6 => {
            let other = random.below(tokens.len());
            tokens.swap(at, other);
        }
        7 => tokens.insert(at, garbage),
        8 => tokens.truncate(at),
        9 => {
            let end = tokens.len().min(at + 1 + random.below(40));
            tokens.drain(at..end);
        }
        _ => repeat(tokens, at, random),
    }
}

/// Another token of the same kind, or of another.
fn exchange<'a>(tokens: &mut [&'a [u8]], at: usize, garbage: &'a [u8], random: &mut Random) {
    let first = tokens[at].first().copied().unwrap_or(b' ');
    tokens[at] = match (first, random.below(6)) {
        (_, 0) => tokens[random.below(tokens.len())],
        (_, 1) => random.pick(&VALUES).as_bytes(),
        (b'"', 2) => garbage,
        (b'"', _) => random.pick(&TEXTS).as_bytes(),
        _ => random.pick(&NUMBERS).as_bytes(),
    };
}

/// A value once more, with a comma, and seldom very often.
fn repeat(tokens: &mut Vec<&[u8]>, at: usize, random: &mut Random) {
    let end = at + value_tokens(&tokens[at..]);
    let value: Vec<&[u8]> = tokens[at..end].iter().copied().chain([&b","[..]]).collect();
    let most = 6_000 / value.len();
    let times = if random.one_in(40) { random.below(most) } else { 1 + random.below(3) };
    let many: Vec<&[u8]> = std::iter::repeat_n(value, times).flatten().collect();
    tokens.splice(at..at, many);
}

/// The tokens of the value that begins here.
fn value_tokens(tokens: &[&[u8]]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            [b'[' | b'{'] => depth += 1,
            [b']' | b'}'] => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Something long, deep or broken.
fn garbage(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => random.pick(&[&b"["[..], b"{\"a\":", b"[["]).repeat(random.below(100_000)),
        1 => [b"\"", &b"x".repeat(random.below(100_000))[..], b"\""].concat(),
        2 => b"9".repeat(random.below(2_000)),
        3..=5 => (0..random.below(40)).map(|_| random.number() as u8).collect(),
        6..=9 => format!("\"{}\"", "n".repeat(random.below(600))).into_bytes(),
        10..=19 => format!("\"o{}.stride[{}]\"", random.below(40), random.below(10)).into_bytes(),
        20..=29 => random.number().to_string().into_bytes(),
        _ => (random.number() as i64).to_string().into_bytes(),
    }
}

/// Bytes of the token at the front.
fn token_bytes(text: &[u8]) -> usize {
    match text[0] {
        b'"' => {
            let mut at = 1;
            while at < text.len() && text[at] != b'"' {
                at += if text[at] == b'\\' { 2 } else { 1 };
            }
            (at + 1).min(text.len())
        }
        byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
            let is_end = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
            text.iter().position(is_end).unwrap_or(text.len())
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text_without_blanks() {
        let json = Json::new(b"{ \"a b\\\"\": [1, -2.5e+3, null] }\n");
        assert_eq!(json.tokens.concat(), b"{\"a b\\\"\":[1,-2.5e+3,null]}");
        let list: Vec<&[u8]> = json.tokens.iter().map(Vec::as_slice).collect();
        assert_eq!(value_tokens(&list), list.len());
        assert_eq!(value_tokens(&list[3..]), 7);
    }
}
