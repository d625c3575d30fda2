use super::{ParseError, Position};

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    /// Digits, and what may follow: a fraction, an exponent, a lane.
    Number(&'a str),
    Sign(&'static str),
    Newline,
    End,
}

/// A piece and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spot<'a> {
    pub(super) token: Token<'a>,
    pub(super) place: Position,
}

/// The most letters of a name or a number: messages show them.
const LONGEST: usize = 1024;

/// The longest come first.
const SIGNS: [&str; 36] = [
    "min=", "max=", "<<", ">>", "<=", ">=", "==", "!=", "+=", "*=", "//", "(", ")", "{", "}", "[",
    "]", ",", ":", "=", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "!", "~", ".", ";", "@",
    "?",
];

/// All pieces of a text. Newlines count outside of parentheses and brackets only, and once.
pub(super) fn tokens(text: &str) -> Result<Vec<Spot<'_>>, ParseError> {
    let mut spots: Vec<Spot<'_>> = Vec::new();
    let mut depth = 0_usize;
    let mut place = Position { line: 1, column: 1 };
    for (at, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let mut rest = code;
        let mut column = 1;
        loop {
            let trimmed = rest.trim_start();
            column += rest[..rest.len() - trimmed.len()].chars().count();
            place = Position { line: at + 1, column };
            let Some(token) = first(trimmed) else { break };
            let token = token.ok_or_else(|| unknown(trimmed, place))?;
            let length = match token {
                Token::Word(word) | Token::Number(word) => word.len(),
                Token::Sign(sign) => sign.len(),
                Token::Newline | Token::End => 0,
            };
            if length > LONGEST {
                let why = format!("a word of {length} letters; one has {LONGEST} at most");
                return Err(ParseError::at(place, why));
            }
            match token {
                Token::Sign("(" | "[") => depth += 1,
                Token::Sign(")" | "]") => depth = depth.saturating_sub(1),
                _ => {}
            }
            spots.push(Spot { token, place });
            // All of them are ASCII: as many characters as bytes.
            (rest, column) = (&trimmed[length..], column + length);
        }
        let is_statement = spots.last().is_some_and(|spot| spot.token != Token::Newline);
        if depth == 0 && is_statement {
            spots.push(Spot { token: Token::Newline, place });
        }
    }
    spots.push(Spot { token: Token::End, place });
    Ok(spots)
}

fn unknown(rest: &str, place: Position) -> ParseError {
    let given = rest.chars().next().unwrap_or_default();
    ParseError::at(place, format!("`{given}` is no part of the language"))
}

/// The first piece; `None` at the end of the line, `Some(None)` if it is none.
#[expect(clippy::option_option, reason = "the end of a line and an unknown letter differ")]
fn first(rest: &str) -> Option<Option<Token<'_>>> {
    let letter = rest.chars().next()?;
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Some(Some(Token::Sign(sign)));
    }
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if letter.is_ascii_digit() {
        return Some(Some(Token::Number(&rest[..number_length(rest)])));
    }
    if is_word(letter) {
        let length = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        return Some(Some(Token::Word(&rest[..length])));
    }
    Some(None)
}

/// Digits, letters, points, and a sign after an `e`.
fn number_length(rest: &str) -> usize {
    let mut last = '0';
    let mut has_exponent = false;
    for (at, letter) in rest.char_indices() {
        let is_sign = matches!(letter, '-' | '+') && last == 'e' && !has_exponent;
        has_exponent |= is_sign;
        if !(letter.is_ascii_alphanumeric() || letter == '.' || is_sign) {
            return at;
        }
        last = letter;
    }
    rest.len()
}
